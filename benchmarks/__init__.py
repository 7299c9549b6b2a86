"""What diffsim costs, measured against its peers in one run on one machine."""
