"""Single rows scored at the label holder, without the partners.

`scorer.Scorer` scores them; `app.serve` does so over HTTP.
"""
