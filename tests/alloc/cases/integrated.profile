# SPDX-License-Identifier: Apache-2.0
# A chip whose CPU and GPU share memory: 121 GiB in a case that was reported, here a quarter.
name        = integrated device
integrated  = yes
capacity    = 30.25 GiB
granularity = 2 MiB
