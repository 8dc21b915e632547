"""Scoring single rows at the label holder: no other party is asked, and nothing leaves."""
