"""What torch's own kernels reach on this GPU, measured as glint-gpu-bench measures: medians, rotating operands,
random data. Usage: gpu_peers.py OUT.json"""

import json
import sys

import torch

COLD_BYTES = 256 << 20


def median_us(body, calls, rounds=9):
    for i in range(3):
        body(i)
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for i in range(calls):
            body(i)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / calls)
    return sorted(times)[len(times) // 2]


def main():
    torch.manual_seed(1)
    figures = []

    def add(name, us, **more):
        figures.append({"name": name, "us": us, **more})
        print(f"{name:58s} {us:10.1f} us  " + "  ".join(f"{k} {v:.2f}" for k, v in more.items()), flush=True)

    n = 4 << 30
    a = torch.empty(n, dtype=torch.uint8, device="cuda").random_(0, 255)
    b = torch.empty_like(a)
    us = median_us(lambda i: b.copy_(a), 2, 5)
    add("torch copy, bytes read and written", us, terabytes_per_s=2 * n / us / 1e6)
    del a, b
    m = 8192
    a, b = (torch.randn(m, m, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    us = median_us(lambda i: a @ b.t(), 4)
    add("torch bf16 8192^3", us, teraflops=2 * m**3 / us / 1e6)
    del a, b
    f8 = torch.float8_e4m3fn
    for name, rows, cols in (("o_proj", 6144, 16384), ("q_b", 16384, 2048), ("gate, dense", 12288, 6144), ("q_a", 2048, 6144)):
        copies = max(2, COLD_BYTES // (rows * cols))
        w = [torch.randn(rows, cols, device="cuda").to(f8) for _ in range(copies)]
        for m in (16, 4096):
            x = torch.randn(m, cols, device="cuda").to(f8)
            work = dict(teraflops=2 * m * rows * cols) if m > 64 else dict(terabytes_per_s=rows * cols)
            forms = {
                "row-wise": (torch.ones(m, 1, device="cuda"), torch.ones(1, rows, device="cuda")),
                "block-wise": (
                    torch.ones(cols // 128, m, device="cuda").t(),
                    torch.ones(rows // 128, cols // 128, device="cuda").t(),
                ),
            }
            for form, (sx, sw) in forms.items():
                try:
                    us = median_us(
                        lambda i: torch._scaled_mm(x, w[i % copies].t(), scale_a=sx, scale_b=sw, out_dtype=torch.bfloat16),
                        4 if m > 64 else 40,
                    )
                    add(f"torch scaled_mm {form} {name} M {m}", us, **{k: v / us / 1e6 for k, v in work.items()})
                except Exception as error:  # a form that this torch does not take
                    print(f"torch scaled_mm {form} {name} M {m}: {str(error).splitlines()[0][:120]}")
        del w
    with open(sys.argv[1], "w") as out:
        json.dump(figures, out, indent=1)


main()
