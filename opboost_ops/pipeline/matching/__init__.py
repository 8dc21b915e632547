"""The sealed exchange within a run: sessions, points and opened rows.

`psi_session.session_of` opens a session, `opened_rows.open_tables` opens what was sealed.
"""
