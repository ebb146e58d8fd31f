"""Keys of configurations without influence on costs; other unused keys are listed.

The keys are from the configuration classes of Hugging Face's transformers (5.23, and 4.56 for what it has dropped)
for the types in `simsys.model.huggingface.families`, and from files published with their own code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from simsys.model.fields import Fields

BOOKKEEPING = """
    architectures auto_map model_type transformers_version torch_dtype dtype torchscript use_bfloat16
    tf_legacy_loss tokenizer_class prefix problem_type task_specific_params finetuning_task pruned_heads
    return_dict id2label label2id output_attentions output_hidden_states output_past gradient_checkpointing
    chunk_size_feed_forward use_cache remove_invalid_values pretraining_tp ep_size tie_encoder_decoder is_decoder
    cross_attention_hidden_size attn_implementation cache_implementation init_device unsloth_version unsloth_fixed
    for_llm_class mamba_ssm_dtype quantization_config compression_config text_config vision_config slow_but_exact
    masked_softmax_fusion bias_dropout_fusion skip_bias_add skip_bias_add_qkv use_embedding_sharing
    use_parallel_embedding
"""
"""How the file was written, and how a library loads and runs it."""

SAMPLING = """
    bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size
    exponential_decay_length_penalty length_penalty max_length min_length no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_scores repetition_penalty return_dict_in_generate suppress_tokens
    temperature top_k top_p typical_p force_bos_token_to_be_generated
"""
"""How text is sampled, in older files."""

TRAINING = """
    initializer_range initializer_factor init_std router_aux_loss_coef output_router_logits aux_loss_alpha seq_aux
    router_jitter_noise input_jitter_noise router_z_loss_coef ignore_index layerdrop decoder_layerdrop
    encoder_layerdrop
"""
"""Losses, initial weights and noise."""

CONSTANTS = """
    rms_norm_eps layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps rope_theta rope_scaling rope_parameters
    rope_local_base_freq rope_interleave rope_ratio rotary_pct rotary_emb_base rotary_dim partial_rotary_factor
    original_max_position_embeddings initial_context_length position_embedding_type attn_logit_softcapping
    final_logit_softcapping query_pre_attn_scalar logit_scale logits_scaling attention_multiplier
    embedding_multiplier residual_multiplier clip_qkv scale_attn_weights scale_attn_by_inverse_layer_idx
    reorder_and_upcast_attn attention_softmax_in_fp32 scale_attention_softmax_in_fp32 swiglu_alpha swiglu_limit
    attn_temperature_tuning attn_scale floor_scale full_attn_alpha_factor full_attn_beta_factor
    linear_attn_alpha_factor linear_attn_beta_factor mlp_alpha_factor mlp_beta_factor
    layernorm_full_attention_alpha layernorm_full_attention_beta layernorm_linear_attention_alpha
    layernorm_linear_attention_beta layernorm_mlp_alpha layernorm_mlp_beta postnorm scale_embedding
    scale_decoder_outputs relative_attention_num_buckets relative_attention_max_distance offset_alibi alibi
    use_dynamic_ntk use_logn_attn
"""
"""Numbers that do not change the time of kernels."""

ROUTING = """
    routed_scaling_factor scoring_func topk_method n_group topk_group norm_topk_prob moe_norm_min shared_moe_mode
    use_routing_bias
"""
"""How experts are chosen."""

SMALL = """
    attention_bias mlp_bias attention_out_bias lm_head_bias bias use_bias enable_bias qkv_bias qk_norm_type
    qk_head_dim linear_conv_kernel_dim do_layer_norm_before layer_norm_elementwise_affine word_embed_proj_dim
    normalize_before normalize_embedding add_bias_logits add_final_layer_norm static_position_embeddings
    extra_pos_embeddings apply_residual_connection_post_layernorm parallel_attn use_parallel_residual
    use_parallel_block num_ln_in_parallel_attn new_decoder_architecture no_rope_layers no_rope_layer_interval
    use_gated_activation order_of_interleaved_layers summary_activation summary_proj_to_labels summary_type
    summary_use_proj n_special n_ctx is_gated_act dense_act_fn directionality pooler_fc_size
    pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    max_encoder_position_embeddings index_head_dim index_n_heads indexer_types block_size use_mtp
    mtp_transformer_layers mtp_use_dedicated_embeddings max_window_layers use_sliding_window head_dim
"""
"""Biases, the order of parts, and sizes that less than a hundredth of the weights depend on."""

MULTIMODAL = """
    spatial_merge_size vision_feature_layer vision_feature_select_strategy image_seq_length projector_hidden_act
    multimodal_projector_bias mm_tokens_per_image projection_dim image_grid_pinpoints use_image_newline_parameter
    downsample_ratio projection_hidden_size projection_layer_norm_eps video_placeholder use_unified_vision_chunk
"""
"""How images become tokens; images themselves are not simulated."""

GROUPS = (BOOKKEEPING, SAMPLING, TRAINING, CONSTANTS, ROUTING, SMALL, MULTIMODAL)
HARMLESS = frozenset(" ".join(GROUPS).split())
HARMLESS_PATTERNS = re.compile(r"_.*|.*tokens?(_ids?|_index)?|.*dropout.*|.*_pdrop")
"""Names of tokens, probabilities of dropout, and what libraries add for themselves."""
HARMLESS_IF_OFF = frozenset({"add_cross_attention", "is_encoder_decoder", "use_bidirectional_attention"})


def unknown_keys(fields: Fields, used_elsewhere: Iterable[str] = ()) -> list[str]:
    """Keys with a value that were not asked for and are not known to change no cost.

    Args:
        fields: A configuration that has been read.
        used_elsewhere: Further keys that are known.
    """
    known = HARMLESS | fields.used | set(used_elsewhere)
    return [key for key, value in fields.values.items() if key not in known and _may_matter(key, value)]


def _may_matter(key: str, value: object) -> bool:
    off = key in HARMLESS_IF_OFF and not value
    return value is not None and not off and not HARMLESS_PATTERNS.fullmatch(key)
