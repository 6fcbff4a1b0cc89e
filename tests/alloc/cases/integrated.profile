# SPDX-License-Identifier: Apache-2.0
# A chip whose CPU and GPU share 121 GiB.
name        = integrated device
integrated  = yes
capacity    = 121 GiB
granularity = 2 MiB
