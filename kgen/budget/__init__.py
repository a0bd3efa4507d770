"""What a spec takes from the hardware, and whether it fits."""

from kgen.budget.fit import budget, violations
from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Barrier, Budget, Role, TmaBox

__all__ = ["Barrier", "Budget", "Item", "Ledger", "Role", "TmaBox", "budget", "violations"]
