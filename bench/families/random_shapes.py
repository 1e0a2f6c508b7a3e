"""Random small configurations of model families, as arguments of transformers' configuration classes. `draw` is a random.Random.

A shape: {"model_type", "config"} and perhaps "aux": the routers' loss is on.
"""


def even(draw, low, high):
    return draw.randrange(low, high + 1, 2)


def common(draw, layers=(1, 4)):
    return {"vocab_size": draw.randrange(40, 130), "hidden_size": draw.randrange(12, 48, 4), "intermediate_size": draw.randrange(10, 56, 2),
            "num_hidden_layers": draw.randint(*layers), "max_position_embeddings": 256, "rms_norm_eps": draw.choice([1e-6, 1e-5, 1e-3]),
            "tie_word_embeddings": draw.random() < 0.4}


def heads(draw):
    many = draw.choice([1, 2, 3, 4, 6])
    return {"num_attention_heads": many, "num_key_value_heads": draw.choice([k for k in range(1, many + 1) if many % k == 0])}


def kinds(draw, layers, names, last=None):
    types = [draw.choice(names) for _ in range(layers)]
    if last:
        types[-1] = last
    return types


def rope(draw, part=None):
    out = {"rope_type": "default", "rope_theta": draw.choice([100.0, 1e4, 1e6])}
    return {**out, "partial_rotary_factor": part} if part else out


def yarn(draw, **more):
    return {"rope_type": "yarn", "rope_theta": draw.choice([150.0, 1e4, 150000.0]), "factor": draw.choice([2.0, 8.0, 32.0]), "beta_fast": 32.0,
            "beta_slow": 1.0, "original_max_position_embeddings": draw.choice([16, 64, 128]), **more}


def gemma4(draw):
    c = common(draw, (2, 6))
    kind = draw.choice(["dense", "dense", "small", "small", "experts"])
    types = kinds(draw, c["num_hidden_layers"], ["sliding_attention", "full_attention"], "full_attention")
    many = draw.choice([1, 2, 4])
    c.update(num_attention_heads=many, num_key_value_heads=draw.choice([k for k in (1, 2, 4) if many % k == 0]), head_dim=draw.choice([4, 8, 12]),
             global_head_dim=draw.choice([8, 12, 16]), sliding_window=draw.randint(3, 12), layer_types=types, tie_word_embeddings=True,
             hidden_size_per_layer_input=0, vocab_size_per_layer_input=c["vocab_size"], attention_bias=draw.random() < 0.2,
             final_logit_softcapping=draw.choice([None, 3.0, 30.0]))
    if draw.random() < 0.5:
        c.update(attention_k_eq_v=True, num_global_key_value_heads=draw.choice([k for k in (1, 2, 4) if many % k == 0]))
    if kind == "small":
        shared = [n for n in range(len(types) - 1) if set(types[len(types) - n:]) <= set(types[:len(types) - n])]
        c.update(hidden_size_per_layer_input=draw.choice([4, 6, 8]), num_kv_shared_layers=draw.choice(shared), use_double_wide_mlp=draw.random() < 0.5)
    if kind == "experts":
        experts = draw.randint(2, 6)
        c.update(enable_moe_block=True, num_experts=experts, top_k_experts=draw.randint(1, min(3, experts)), moe_intermediate_size=even(draw, 4, 14))
    return {"model_type": "gemma4_text", "config": c}


def gpt_oss(draw):
    c, experts = {**common(draw), **heads(draw)}, draw.randint(2, 6)
    c.update(head_dim=draw.choice([4, 8, 16]), sliding_window=draw.randint(3, 12), num_local_experts=experts,
             num_experts_per_tok=draw.randint(1, min(3, experts)), attention_bias=draw.random() < 0.7, swiglu_limit=draw.choice([0.5, 7.0]),
             layer_types=kinds(draw, c["num_hidden_layers"], ["sliding_attention", "full_attention"]), tie_word_embeddings=False,
             rope_parameters=yarn(draw, truncate=draw.random() < 0.5) if draw.random() < 0.8 else rope(draw))
    aux = draw.random() < 0.2
    return {"model_type": "gpt_oss", "config": {**c, **({"output_router_logits": True, "router_aux_loss_coef": 0.05} if aux else {})}, "aux": aux}


def routed(draw, c, groups):
    experts = draw.choice([4, 6, 8]) if groups else draw.randint(2, 7)
    c.update(n_routed_experts=experts, n_shared_experts=draw.randint(1, 2), moe_intermediate_size=even(draw, 4, 14),
             routed_scaling_factor=draw.choice([1.0, 1.7, 2.5]), n_group=1, topk_group=1)
    if groups:
        c["n_group"] = draw.choice([g for g in (1, 2, 3) if experts % g == 0 and experts // g >= 2])
        c["topk_group"] = draw.randint(1, c["n_group"])
    c["num_experts_per_tok"] = draw.randint(1, min(3, experts // c["n_group"] * c["topk_group"]))


def latent(draw, c):
    many = draw.randint(1, 4)
    c.update(num_attention_heads=many, num_key_value_heads=many, q_lora_rank=draw.choice([None, draw.randint(5, 16)]), kv_lora_rank=draw.randint(4, 14),
             qk_nope_head_dim=draw.randint(3, 10), qk_rope_head_dim=even(draw, 2, 8), v_head_dim=draw.randint(4, 14),
             attention_bias=draw.random() < 0.3)


def deepseek_v2(draw):
    c, method = common(draw), draw.choice(["greedy", "group_limited_greedy"])
    latent(draw, c)
    many = draw.choice([1, 2, 4])                    # transformers wants a divisor of the width
    c.update(num_attention_heads=many, num_key_value_heads=many)
    c.update(kv_lora_rank=even(draw, 4, 14), qk_nope_head_dim=even(draw, 4, 10))     # transformers views pairs of columns as complex numbers
    routed(draw, c, method != "greedy")
    c.update(topk_method=method, norm_topk_prob=False, first_k_dense_replace=draw.randint(0, c["num_hidden_layers"] - 1),
             rope_parameters=yarn(draw, mscale=0.7, mscale_all_dim=0.7) if draw.random() < 0.5 else rope(draw))
    return {"model_type": "deepseek_v2", "config": c}


def deepseek_v3(draw):
    c = common(draw)
    latent(draw, c)
    routed(draw, c, True)
    c.update(norm_topk_prob=draw.random() < 0.7, first_k_dense_replace=draw.randint(0, c["num_hidden_layers"] - 1), rope_interleave=draw.random() < 0.7,
             rope_parameters=yarn(draw, mscale=1.0, mscale_all_dim=draw.choice([0.8, 1.0])) if draw.random() < 0.5 else rope(draw))
    return {"model_type": "deepseek_v3", "config": c}


def glm4_moe_lite(draw):
    c = common(draw)
    latent(draw, c)
    routed(draw, c, True)
    c.update(norm_topk_prob=draw.random() < 0.7, mlp_layer_types=kinds(draw, c["num_hidden_layers"], ["sparse", "dense"], "sparse"),
             rope_interleave=draw.random() < 0.5, rope_parameters=rope(draw))
    return {"model_type": "glm4_moe_lite", "config": c}


def glm4_moe(draw):
    c = {**common(draw), **heads(draw)}
    routed(draw, c, True)
    c.update(head_dim=draw.choice([8, 12, 16]), use_qk_norm=draw.random() < 0.5, attention_bias=draw.random() < 0.5,
             norm_topk_prob=draw.random() < 0.7, first_k_dense_replace=draw.randint(0, c["num_hidden_layers"] - 1), rope_parameters=rope(draw, 0.5))
    return {"model_type": "glm4_moe", "config": c}


def delta_nets(draw):
    c, keys = {**common(draw), **heads(draw)}, draw.randint(1, 3)
    types = kinds(draw, c["num_hidden_layers"], ["linear_attention", "linear_attention", "full_attention"])
    types[draw.randrange(len(types))] = "linear_attention"
    c.update(head_dim=draw.choice([8, 16]), layer_types=types, linear_num_key_heads=keys, linear_num_value_heads=keys * draw.randint(1, 3),
             linear_key_head_dim=draw.randint(4, 10), linear_value_head_dim=draw.randint(4, 10), linear_conv_kernel_dim=draw.choice([2, 3, 4]),
             rope_parameters=rope(draw, draw.choice([0.25, 0.5, 1.0])))
    return c


def qwen35(draw):
    return {"model_type": "qwen3_5_text", "config": delta_nets(draw)}


def qwen35_experts(draw):
    c, experts = delta_nets(draw), draw.randint(2, 6)
    c.update(num_experts=experts, num_experts_per_tok=draw.randint(1, min(3, experts)), moe_intermediate_size=even(draw, 4, 14),
             shared_expert_intermediate_size=even(draw, 4, 14))
    return {"model_type": "qwen3_5_moe_text", "config": c}


def qwen3_next(draw):
    shape, c = qwen35_experts(draw), None
    c, aux = shape["config"], draw.random() < 0.2
    c.update(norm_topk_prob=draw.random() < 0.5, mlp_only_layers=[i for i in range(c["num_hidden_layers"]) if draw.random() < 0.2], decoder_sparse_step=1)
    if len(c["mlp_only_layers"]) == c["num_hidden_layers"]:
        c["mlp_only_layers"] = []
    if aux:
        c.update(output_router_logits=True, router_aux_loss_coef=0.05)
    return {"model_type": "qwen3_next", "config": c, "aux": aux}


def llamas(draw):
    """A decoder of the families that classify and embed most."""
    kind = draw.choice(["llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "phi3", "smollm3"])
    many, width = draw.choice([1, 2, 4]), draw.choice([8, 12])
    c = {**common(draw), "num_attention_heads": many, "num_key_value_heads": draw.choice([k for k in (1, 2, 4) if many % k == 0])}
    if kind in ("qwen2", "phi3", "smollm3"):
        c["hidden_size"] = many * width
    else:
        c["head_dim"] = width
    if kind.startswith("gemma"):
        c.update(sliding_window=draw.randint(3, 12), query_pre_attn_scalar=width, tie_word_embeddings=True)
    return {"model_type": kind, "config": c}


FAMILIES = {f.__name__: f for f in (gemma4, gpt_oss, deepseek_v2, deepseek_v3, glm4_moe_lite, glm4_moe, qwen35, qwen35_experts, qwen3_next)}
HEADS = [llamas, llamas, gpt_oss, deepseek_v2, deepseek_v3, qwen35, qwen3_next]
