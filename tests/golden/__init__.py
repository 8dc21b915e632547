"""The state that an edition leaves behind, which the next one reads."""
