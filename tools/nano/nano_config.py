"""The nano model's config.json and the small files beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from make_tokenizer import ADDED

VOCAB_SIZE = 1536


def token_id(content: str, vocab_size: int = VOCAB_SIZE) -> int:
    return vocab_size - len(ADDED) + ADDED.index(content)


def config(vocab_size: int = VOCAB_SIZE) -> dict:
    """GLM-5.3's shape in miniature: every feature, the proportions of its layers and of its index schedule."""
    layers, dense, freq, offset = 8, 2, 4, 3
    eos = [token_id(t, vocab_size) for t in ("<|endoftext|>", "<|user|>", "<|observation|>")]
    return {
        "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "dtype": "bfloat16", "attention_bias": False,
        "attention_dropout": 0.0, "hidden_act": "silu", "initializer_range": 0.02, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
        "norm_topk_prob": True, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
        "moe_router_dtype": "float32", "moe_layer_freq": 1, "rms_norm_eps": 1e-05,
        "rope_parameters": {"rope_theta": 8000000, "rope_type": "default"}, "rope_interleave": True, "indexer_rope_interleave": True,
        "index_share_for_mtp_iteration": True, "index_topk_pattern": None, "num_nextn_predict_layers": 1, "tie_word_embeddings": False,
        "use_cache": True, "ep_size": 1, "pretraining_tp": 1, "transformers_version": "5.15.0", "max_position_embeddings": 4096,
        "vocab_size": vocab_size, "hidden_size": 256, "intermediate_size": 768, "moe_intermediate_size": 96,
        "num_attention_heads": 8, "num_key_value_heads": 8, "q_lora_rank": 128, "kv_lora_rank": 128, "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 32, "qk_head_dim": 64, "head_dim": 32, "v_head_dim": 64, "index_n_heads": 8, "index_head_dim": 64,
        "index_topk": 128, "n_routed_experts": 16, "num_experts_per_tok": 4, "num_hidden_layers": layers, "first_k_dense_replace": dense,
        "index_topk_freq": freq, "index_skip_topk_offset": offset,
        "indexer_types": ["full" if max(i - offset + 1, 0) % freq == 0 else "shared" for i in range(layers)],
        "mlp_layer_types": ["dense" if i < dense else "sparse" for i in range(layers)], "eos_token_id": eos, "pad_token_id": eos[0],
    }


def tiny(vocab_size: int = VOCAB_SIZE) -> dict:
    """A smaller one of the same schedule, for tests on a CPU."""
    c = config(vocab_size)
    c.update(hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=48,
             kv_lora_rank=32, qk_nope_head_dim=24, qk_rope_head_dim=16, qk_head_dim=40, head_dim=24, v_head_dim=40, index_head_dim=32,
             index_topk=32, n_routed_experts=8, num_experts_per_tok=2)
    return c


def chat_template() -> str:
    """The template that stand-in checkpoints carry; its one source is the C++ that writes them."""
    source = (Path(__file__).resolve().parents[2] / "src/text/standin_template.cc").read_text(encoding="utf-8")
    return re.search(r'R"jinja\((.*?)\)jinja"', source, re.DOTALL).group(1)


def write_side_files(folder: Path, c: dict | None) -> None:
    """All but the tensors and the tokenizer; without `c` config.json stays as it is."""
    def dump(name: str, value: dict) -> None:
        (folder / name).write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    if c is not None:
        dump("config.json", c)
    c = c or config()
    dump("generation_config.json", {"temperature": 1.0, "top_p": 0.95, "eos_token_id": c["eos_token_id"], "pad_token_id": c["pad_token_id"]})
    dump("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": c["max_position_embeddings"],
                                   "padding_side": "left", "clean_up_tokenization_spaces": False, "eos_token": "<|endoftext|>",
                                   "pad_token": "<|endoftext|>", "bos_token": None, "unk_token": None})
    (folder / "chat_template.jinja").write_text(chat_template(), encoding="utf-8")
