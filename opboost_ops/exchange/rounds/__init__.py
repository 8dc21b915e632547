"""The rounds of horizontal learning: masked sums by way of the store.

`protocol.Rounds` is what a trainer sees of them, `mailbox.Mailbox` exchanges their messages,
`masks` adds and removes masks, `acceptance` takes what others send.
"""
