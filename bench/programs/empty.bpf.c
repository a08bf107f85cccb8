/* Drops every packet. The kernel times it, to know what the timing itself takes.
 * SPDX-License-Identifier: MIT
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "MIT";

SEC("xdp")
int empty(struct xdp_md *context)
{
    (void)context;
    return XDP_DROP;
}
