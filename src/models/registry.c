#include <stdio.h>

#include "base/str.h"
#include "models/family.h"

extern const struct family family_llama, family_mistral, family_qwen2, family_qwen3,
    family_iquestcoder, family_phi3, family_gpt_neox, family_gpt2, family_gemma2,
    family_gemma3_text, family_cohere2, family_olmo2, family_llama4_text, family_hunyuan,
    family_granite, family_gemma, family_olmo3, family_mixtral, family_qwen3_moe, family_gpt_oss,
    family_qwen2_moe, family_olmoe, family_mamba2, family_lfm2, family_recurrent_gemma,
    family_jamba, family_mamba, family_falcon_mamba, family_deepseek_v3, family_deepseek_v2,
    family_glm4_moe, family_glm4_moe_lite, family_solar_open, family_dots1, family_deepseek,
    family_minimax, family_deepseek_v32, family_qwen3_next, family_kimi_linear, family_glm_moe_dsa,
    family_gemma3n, family_rwkv7;

static const struct family *const registry[] = {
    &family_llama,           //
    &family_mistral,         //
    &family_qwen2,           //
    &family_qwen3,           //
    &family_iquestcoder,     //
    &family_phi3,            //
    &family_gpt_neox,        //
    &family_gpt2,            //
    &family_gemma2,          //
    &family_gemma3_text,     //
    &family_gemma3n,         //
    &family_cohere2,         //
    &family_olmo2,           //
    &family_llama4_text,     //
    &family_gemma,           //
    &family_olmo3,           //
    &family_granite,         //
    &family_hunyuan,         //
    &family_mixtral,         //
    &family_qwen3_moe,       //
    &family_gpt_oss,         //
    &family_qwen2_moe,       //
    &family_olmoe,           //
    &family_mamba2,          //
    &family_lfm2,            //
    &family_recurrent_gemma, //
    &family_jamba,           //
    &family_mamba,           //
    &family_falcon_mamba,    //
    &family_deepseek_v3,     //
    &family_deepseek_v2,     //
    &family_glm4_moe,        //
    &family_glm4_moe_lite,   //
    &family_solar_open,      //
    &family_dots1,           //
    &family_deepseek,        //
    &family_minimax,         //
    &family_deepseek_v32,    //
    &family_qwen3_next,      //
    &family_kimi_linear,     //
    &family_glm_moe_dsa,     //
    &family_rwkv7,           //
};

const struct family *const *families(size_t *n) {
    *n = sizeof registry / sizeof *registry;
    return registry;
}

const char *family_kind_name(enum family_kind k) {
    switch (k) {
    case KIND_GENERATOR: return "generator";
    }
    return "";
}

static bool is_of(const struct family *f, struct sv model_type) {
    for (const char *const *t = f->model_types; *t; t++)
        if (sv_is(model_type, *t)) return true;
    return false;
}

static const struct family *find(struct config *c, struct error *e) {
    struct sv type = config_text(c, "model_type", "");
    if (!config_ok(c, e)) return NULL;
    struct str known = {0};
    for (size_t i = 0; i < sizeof registry / sizeof *registry; i++) {
        if (is_of(registry[i], type)) {
            str_free(&known);
            return registry[i];
        }
        str_printf(&known, "%s%s", i ? ", " : "", registry[i]->id);
    }
    if (type.n)
        fail(e, "%s: key \"model_type\" is \"%.*s\", which is not supported (supported: %s)",
             config_what(c), (int)(type.n < 64 ? type.n : 64), type.p, str_c(&known));
    else
        fail(e, "%s: key \"model_type\" is missing; it names the architecture (supported: %s)",
             config_what(c), str_c(&known));
    str_free(&known);
    return NULL;
}

const struct family *family_read(struct config *c, struct decoder_spec *spec, struct error *e) {
    const struct family *f = find(c, e);
    if (!f) return NULL;
    f->spec(c, spec);
    if (config_ok(c, e) && config_check_unread(c, e)) return f;
    decoder_spec_free(spec);
    return NULL;
}
