"""All that runs in the children that measure; Python 3.6 syntax, nothing of the tracker."""
