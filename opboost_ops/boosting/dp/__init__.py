"""DPBoost (Li et al., AAAI 2020), with its constants corrected: trees that may be shared."""
