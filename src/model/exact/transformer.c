/* SPDX-License-Identifier: Apache-2.0
 *
 * transformer.c - BERT (Devlin et al., 2019) and GPT-2 (Radford et al., 2019) as Hugging Face
 * defines them, and the encoder-decoder (Vaswani et al., 2017) as fairseq does, or with the fused
 * projections of torch.nn.Transformer.
 *
 * The output layer shares the matrix of the embedding: the gradient is complete when the backward
 * of the embedding, the first operator, has ended. */
#include "base/text.h"
#include "model/exact/exact.h"

enum {
    BERT_VOCABULARY = 30522,
    BERT_POSITIONS = 512,
    BERT_SEGMENTS = 2,
    GPT2_VOCABULARY = 50257,
    GPT2_POSITIONS = 1024,
    JOINED_VOCABULARY = 37000, /* of both languages, WMT 2014 English-German */
};

typedef struct block_state {
    const tt_network *network;
    tt_exact *exact;
    tt_text prefix; /* of the block's names */
} block_state;

static const char *named(block_state *block, tt_text *text, const char *name)
{
    tt_text_clear(text);
    tt_text_add(text, "%s%s", block->prefix.bytes, name);
    return text->bytes;
}

static void block_begin(block_state *block, const char *stack, uint32_t index)
{
    tt_text_clear(&block->prefix);
    tt_text_add(&block->prefix, "%s%u.", stack, index);
}

/* A matrix of `inputs` by `outputs` times the width, for every token. */
static void matrix(block_state *block, const char *name, uint64_t inputs, uint64_t outputs)
{
    const uint64_t width = block->network->width;
    tt_text text;
    tt_exact_linear_add(
        block->exact, named(block, &text, name),
        &(tt_exact_linear){inputs * width, outputs * width, block->network->tokens});
}

static void norm(block_state *block, const char *name)
{
    tt_text text;
    tt_exact_norm_add(block->exact, named(block, &text, name), block->network->width);
}

/* Scores and weighted values: two products of tokens by tokens by width. */
static void attend(block_state *block)
{
    const double tokens = block->network->tokens;
    (void)tt_exact_product_add(block->exact, 2 * tokens * tokens * block->network->width);
}

/* The table of the embedding times all tokens, once more. */
static void output_layer(const tt_network *network, tt_exact *exact, double vocabulary)
{
    (void)tt_exact_product_add(exact, vocabulary * network->width * network->tokens);
}

/* ---- BERT --------------------------------------------------------------------------------------
 */

static void bert_embeddings(const tt_network *network, tt_exact *exact)
{
    static const char *const name = "bert.embeddings";
    const uint64_t width = network->width;
    const uint32_t word = tt_exact_op_add(exact, 0);
    const uint32_t segment = tt_exact_op_add(exact, 0);
    const uint32_t position = tt_exact_op_add(exact, 0);
    (void)tt_exact_tensor_add(exact, name, "word_embeddings.weight", BERT_VOCABULARY * width, word);
    (void)tt_exact_tensor_add(exact, name, "position_embeddings.weight", BERT_POSITIONS * width,
                              position);
    (void)tt_exact_tensor_add(exact, name, "token_type_embeddings.weight", BERT_SEGMENTS * width,
                              segment);
    tt_exact_norm_add(exact, "bert.embeddings.LayerNorm", width);
}

static void bert_layer(block_state *block)
{
    matrix(block, "attention.self.query", 1, 1);
    matrix(block, "attention.self.key", 1, 1);
    matrix(block, "attention.self.value", 1, 1);
    attend(block);
    matrix(block, "attention.output.dense", 1, 1);
    norm(block, "attention.output.LayerNorm");
    matrix(block, "intermediate.dense", 1, 4);
    matrix(block, "output.dense", 4, 1);
    norm(block, "output.LayerNorm");
}

/* The heads of pretraining: words for every token, the next sentence for the first. */
static void bert_heads(const tt_network *network, tt_exact *exact)
{
    const uint64_t width = network->width;
    tt_exact_linear_add(exact, "bert.pooler.dense", &(tt_exact_linear){width, width, 1});
    const uint32_t bias = tt_exact_tensor_add(exact, "cls.predictions", "bias", BERT_VOCABULARY, 0);
    tt_exact_linear_add(exact, "cls.predictions.transform.dense",
                        &(tt_exact_linear){width, width, network->tokens});
    tt_exact_norm_add(exact, "cls.predictions.transform.LayerNorm", width);
    output_layer(network, exact, BERT_VOCABULARY);
    exact->tensors[bias].op = tt_exact_op_add(exact, 0); /* registered early, used here */
    tt_exact_linear_add(exact, "cls.seq_relationship", &(tt_exact_linear){width, 2, 1});
}

void tt_exact_bert(const tt_network *network, tt_exact *exact)
{
    block_state block = {.network = network, .exact = exact};
    bert_embeddings(network, exact);
    for (uint32_t i = 0; i < network->depth; i++) {
        block_begin(&block, "bert.encoder.layer.", i);
        bert_layer(&block);
    }
    bert_heads(network, exact);
}

/* ---- GPT-2 -------------------------------------------------------------------------------------
 */

void tt_exact_gpt2(const tt_network *network, tt_exact *exact)
{
    const uint64_t width = network->width;
    block_state block = {.network = network, .exact = exact};
    (void)tt_exact_tensor_add(exact, "transformer.wte", "weight", GPT2_VOCABULARY * width,
                              tt_exact_op_add(exact, 0));
    (void)tt_exact_tensor_add(exact, "transformer.wpe", "weight", GPT2_POSITIONS * width,
                              tt_exact_op_add(exact, 0));
    for (uint32_t i = 0; i < network->depth; i++) {
        block_begin(&block, "transformer.h.", i);
        norm(&block, "ln_1");
        matrix(&block, "attn.c_attn", 1, 3);
        attend(&block);
        matrix(&block, "attn.c_proj", 1, 1);
        norm(&block, "ln_2");
        matrix(&block, "mlp.c_fc", 1, 4);
        matrix(&block, "mlp.c_proj", 4, 1);
    }
    tt_exact_norm_add(exact, "transformer.ln_f", width);
    output_layer(network, exact, GPT2_VOCABULARY);
}

/* ---- encoder and decoder, each matrix by itself ------------------------------------------------
 */

static void apart_attention(block_state *block, const char *name)
{
    static const char *const inputs[] = {"k_proj", "v_proj", "q_proj"};
    tt_text whole = {.length = 0};
    for (int i = 0; i < 3; i++) {
        tt_text_clear(&whole);
        tt_text_add(&whole, "%s.%s", name, inputs[i]);
        matrix(block, whole.bytes, 1, 1);
    }
    attend(block);
    tt_text_clear(&whole);
    tt_text_add(&whole, "%s.out_proj", name);
    matrix(block, whole.bytes, 1, 1);
    tt_text_clear(&whole);
    tt_text_add(&whole, "%s_layer_norm", name);
    norm(block, whole.bytes);
}

static void apart_layer(block_state *block, bool is_decoder)
{
    apart_attention(block, "self_attn");
    if (is_decoder) {
        apart_attention(block, "encoder_attn");
    }
    matrix(block, "fc1", 1, 4);
    matrix(block, "fc2", 4, 1);
    norm(block, "final_layer_norm");
}

/* ---- encoder and decoder, query, key and value in one matrix -----------------------------------
 */

/* Returns the operator of the normalisation that follows. */
static uint32_t fused_attention(block_state *block, const char *name)
{
    const uint64_t width = block->network->width;
    tt_text weight, bias, whole = {.length = 0};
    named(block, &weight, name);
    named(block, &bias, name);
    tt_text_add(&weight, ".in_proj_weight");
    tt_text_add(&bias, ".in_proj_bias");
    tt_exact_linear_add_as(block->exact, weight.bytes, bias.bytes,
                           &(tt_exact_linear){width, 3 * width, block->network->tokens});
    attend(block);
    tt_text_add(&whole, "%s.out_proj", name);
    matrix(block, whole.bytes, 1, 1);
    return tt_exact_op_add(block->exact, 0);
}

/* Normalisations are registered after all else of their layer. */
static void fused_layer(block_state *block, bool is_decoder)
{
    static const char *const names[] = {"norm1", "norm2", "norm3"};
    uint32_t norms[3];
    uint32_t norm_count = 0;
    norms[norm_count++] = fused_attention(block, "self_attn");
    if (is_decoder) {
        norms[norm_count++] = fused_attention(block, "multihead_attn");
    }
    matrix(block, "linear1", 1, 4);
    matrix(block, "linear2", 4, 1);
    norms[norm_count++] = tt_exact_op_add(block->exact, 0);
    for (uint32_t i = 0; i < norm_count; i++) {
        tt_text text;
        tt_exact_norm_register(block->exact, named(block, &text, names[i]), block->network->width,
                               norms[i]);
    }
}

void tt_exact_translator(const tt_network *network, tt_exact *exact)
{
    const bool is_fused = network->is_fused;
    block_state block = {.network = network, .exact = exact};
    (void)tt_exact_tensor_add(exact, is_fused ? "emb" : "encoder.embed_tokens", "weight",
                              (uint64_t)JOINED_VOCABULARY * network->width,
                              tt_exact_op_add(exact, 0));
    for (int is_decoder = 0; is_decoder < 2; is_decoder++) {
        static const char *const prefixes[2][2] = {{"encoder.layers.", "decoder.layers."},
                                                   {"t.encoder.layers.", "t.decoder.layers."}};
        for (uint32_t i = 0; i < network->depth; i++) {
            block_begin(&block, prefixes[is_fused][is_decoder], i);
            if (is_fused) {
                fused_layer(&block, is_decoder);
            } else {
                apart_layer(&block, is_decoder);
            }
        }
    }
    output_layer(network, exact, JOINED_VOCABULARY);
}
