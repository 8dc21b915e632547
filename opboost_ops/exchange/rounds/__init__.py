"""The rounds of horizontal learning: masked sums, exchanged through the store.

`protocol.Rounds` is the interface for trainers, `mailbox.Mailbox` exchanges the messages,
`masks` adds and removes masks, `conversation` sends, receives and verifies them.
"""
