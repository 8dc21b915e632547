"""How many different values a cell can have released at worst, from public facts alone.

Under one noise key (receiver's secret, map and channel) an unchanged cell gives its output again,
so a cell's loss is at most the losses of its *different* values. Let r_n be how many different
values person p's cell has released after draw n, and c_n how many its cell state knows. Draw n
holds and charges under the database's write lock, with the cap k_n (infinite where none is in
force): a value that the state knows goes; a new one goes if c < k_n, else the value charged last
goes in its place. With B_0 = 0 the public worst case is

    B_n = B_(n-1) + 1   if that is at most k_n,
    B_n = B_(n-1)       else.

Claim: r_n <= c_n <= B_n for every person, whichever people are absent in whichever draws and
however caps change. What is published was charged before, so r_n <= c_n. If p is absent, or its
value is known, or is held, c does not move, and B never falls. Else c_(n-1) < k_n and c_n = c_(n-1)
+ 1. Where B rises, c_n <= B_(n-1) + 1 = B_n. Where it does not, B_(n-1) + 1 > k_n, so B_(n-1) >=
k_n, and c_n <= k_n <= B_(n-1) = B_n. Draws that are not published only make c larger than r.

A draw whose held inputs and people are those of an earlier one under the key moves no c: it is no
new draw. Equal outputs would not do: a changed cell keeps its output with some probability. The
first draw after a migration from 0.1.0 has no name to be recognised by. It is the former draw again
if nobody in the cell state gets a value that the state does not have: their c does not move, and
people who are not in it get c = 1 <= B, because a former draw has B >= 1.

A cell state that is lost, or older than the ledger, ends the argument: r may be B while c is less.
Its owner may go on with a *base*: b = B counts what the lost state may have let go, and from then
on r_n <= b + c_n and c_n <= B_n - b, by the same steps with c and B_n - b in place of c and B_n;
to begin with, B := b + max(k, the largest c that is left). A cell has no more different values
than there are inputs, so B never passes their number, either.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CellBound:
    """The public worst case of a noise key.

    Attributes:
        values: B: no cell has released more different values.
        base: How many of them are for values of which the cell state knows nothing.
        number: Of the last draw.
    """

    values: int = 0
    base: int = 0
    number: int = 0

    def after_draw(self, most: int | None, inputs: int) -> "CellBound":
        """After one more new draw.

        Args:
            most: The cap in force; none when absent.
            inputs: How many different values a cell can have.
        """
        grown = self.values + 1
        allowed = most is None or grown - self.base <= most
        values = min(grown, max(inputs, self.values)) if allowed else self.values
        return CellBound(values, self.base, self.number + 1)

    def after_loss(self, most: int | None, left: int, inputs: int) -> "CellBound":
        """After the owner has accepted that the cell state is lost, or older than the ledger.

        Args:
            most: The cap in force; none when absent.
            left: The largest count of different values in what is left of the state.
            inputs: How many different values a cell can have.
        """
        more = inputs if most is None else max(most, left)
        values = min(self.values + more, max(inputs, self.values))
        return CellBound(values, self.values, self.number + 1)

    def steps_left(self, most: int | None, inputs: int) -> int:
        """By how much it can still grow under a cap.

        Args:
            most: The cap.
            inputs: How many different values a cell can have.
        """
        end = inputs if most is None else min(inputs, self.base + most)
        return max(0, end - self.values)
