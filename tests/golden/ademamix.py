"""AdEMAMix by the formulas of its paper (Pagliardini et al. 2024, arXiv 2409.03137, algorithm 1 and section 3)."""
import math

import torch


class AdEMAMix(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999, 0.9999), alpha=5.0, eps=1e-8, weight_decay=0.0, t_alpha=None, t_beta3=None):
        super().__init__(params, {"lr": lr, "betas": betas, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "t_alpha": t_alpha,
                                  "t_beta3": t_beta3})

    @staticmethod
    def scheduled(group, t):
        """alpha rises linearly; the half-life of the slow mean, log(1/2) / log(beta3), from that of beta1."""
        alpha, (beta1, _, beta3) = group["alpha"], group["betas"]
        if group["t_alpha"]:
            alpha = min(t * alpha / group["t_alpha"], alpha)
        if group["t_beta3"]:
            low, high, passed = math.log(beta1), math.log(beta3), t / group["t_beta3"]
            beta3 = min(math.exp(low * high / ((1 - passed) * high + passed * low)), beta3)
        return alpha, beta3

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2, _ = group["betas"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s.update(t=0, fast=torch.zeros_like(p), slow=torch.zeros_like(p), squares=torch.zeros_like(p))
                s["t"] += 1
                alpha, beta3 = self.scheduled(group, s["t"])
                s["fast"].lerp_(p.grad, 1 - beta1)
                s["slow"].lerp_(p.grad, 1 - beta3)
                s["squares"].lerp_(p.grad * p.grad, 1 - beta2)
                fast = s["fast"] / (1 - beta1 ** s["t"])
                squares = s["squares"] / (1 - beta2 ** s["t"])
                p -= group["lr"] * ((fast + alpha * s["slow"]) / (squares.sqrt() + group["eps"]) + group["weight_decay"] * p)
