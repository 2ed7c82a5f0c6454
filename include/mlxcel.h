// libmlxcel: runs a language model checkpoint (Hugging Face or mlx-community, as published) inside
// a program. A model is opened once; answers are pulled out of it piece by piece:
//
//     struct mlxcel_error e = {0};
//     struct mlxcel *m = mlxcel_open("models/SmolLM2-135M-Instruct", NULL, &e);
//     struct mlxcel_message hi = {"user", "Why is the sky blue?"};
//     struct mlxcel_request r = {.messages = &hi, .message_count = 1};
//     struct mlxcel_generation *g = m ? mlxcel_generate_start(m, &r, &e) : NULL;
//     struct mlxcel_piece p;
//     while (g && mlxcel_generate_next(g, &p, &e)) fwrite(p.text, 1, p.size, stdout);
//     if (e.text[0]) fprintf(stderr, "%s\n", e.text);
//     mlxcel_generate_close(g);
//     mlxcel_close(m);
//
// In every struct that the caller fills, zero means the default. Functions that can fail take an
// error last: when they fail they fill it, when they succeed they leave it alone. A model and its
// generation are used by one thread at a time; several models may be used by several threads.
#ifndef MLXCEL_H
#define MLXCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLXCEL_API __attribute__((visibility("default")))

struct mlxcel;            // a loaded model
struct mlxcel_generation; // one answer being made

struct mlxcel_error {
    char text[768]; // one line: what is wrong with which file, key or value, and the remedy
};

MLXCEL_API const char *mlxcel_version(void); // "0.1.0"

// --- models --------------------------------------------------------------------------------------

struct mlxcel_options {
    const char *device; // "auto", "cpu"; NULL: "auto"
    int threads;        // of the CPU; 0: one a physical core
    int64_t context;    // tokens of prompt and answer together; 0: the model's own, or less if
                        // memory asks
    bool f32;           // every operation in 32-bit floats
    // How keys and values are kept: "f16", "bf16", "f32", "q8_0" (8 bits with a scale for each 32).
    // NULL: "f16", with f32 "f32"
    const char *cache_k, *cache_v;
};

// path: the checkpoint's folder, or a file in it. opt may be NULL. NULL on failure.
MLXCEL_API struct mlxcel *mlxcel_open(const char *path, const struct mlxcel_options *opt,
                                      struct mlxcel_error *e);
// Every generation must have been closed. NULL is fine.
MLXCEL_API void mlxcel_close(struct mlxcel *m);

struct mlxcel_info {
    const char *family; // "llama"
    const char *device; // "cpu (avx512, 8 threads)"
    int64_t parameters, layers, vocabulary;
    int64_t context;       // tokens that prompt and answer may have together
    int64_t model_context; // tokens that the model was made for
    size_t weight_bytes, cache_bytes, scratch_bytes;
};
// The texts live as long as the model.
MLXCEL_API struct mlxcel_info mlxcel_get_info(const struct mlxcel *m);

// --- tokens --------------------------------------------------------------------------------------

// Text [size] to ids. special: with the tokens that the model expects at the beginning or the end
// of a text. Returns how many ids there are, of which at most `room` were written; -1 on failure.
MLXCEL_API int64_t mlxcel_tokenize(const struct mlxcel *m, const char *text, size_t size,
                                   bool special, int32_t *ids, size_t room, struct mlxcel_error *e);

// Ids to text, special tokens included. Returns how many bytes there are, of which at most `room`
// were written, without a NUL; -1 on failure.
MLXCEL_API int64_t mlxcel_detokenize(const struct mlxcel *m, const int32_t *ids, size_t count,
                                     char *text, size_t room, struct mlxcel_error *e);

// --- answers -------------------------------------------------------------------------------------

struct mlxcel_message {
    const char *role; // "system", "user", "assistant"
    const char *content;
};

struct mlxcel_request {
    // What to answer: one of the three.
    const struct mlxcel_message *messages; // a conversation, through the model's chat template
    size_t message_count;
    const char *prompt; // text that is given to the model as it is
    const int32_t *ids; // tokens
    size_t id_count;

    int64_t max_tokens;      // 0: until the model ends or the context is full
    const char *const *stop; // end before one of these texts
    size_t stop_count;
    bool ignore_eos; // go on after the model's end-of-sequence tokens

    float temperature;        // 0: always the likeliest token
    int64_t top_k;            // only so many of the likeliest tokens; 0: all
    float top_p;              // only the likeliest that together have this probability; 0 or 1: all
    float min_p;              // only those so likely, as a part of the likeliest; 0: all
    float repetition_penalty; // 0 or 1: off
    float presence_penalty, frequency_penalty;
    int64_t penalty_window; // tokens that the penalties look back; 0: 64, -1: all
    uint64_t seed;          // the same seed gives the same answer
};

// The request's memory may go once this returns. A model makes one answer at a time: the one
// before must have been closed. NULL on failure.
MLXCEL_API struct mlxcel_generation *mlxcel_generate_start(struct mlxcel *m,
                                                           const struct mlxcel_request *r,
                                                           struct mlxcel_error *e);

struct mlxcel_piece {
    const char *text; // UTF-8, whole characters, no NUL after it; valid until the next call
    size_t size;      // may be 0: nothing is certain yet
};

// Computes the next step of the answer. False when the answer is over, or on failure.
MLXCEL_API bool mlxcel_generate_next(struct mlxcel_generation *g, struct mlxcel_piece *piece,
                                     struct mlxcel_error *e);

// Ends the answer early; the next piece is the last. May be called between two pieces only.
MLXCEL_API void mlxcel_generate_cancel(struct mlxcel_generation *g);

enum mlxcel_finish {
    MLXCEL_RUNNING,
    MLXCEL_STOP,   // the model ended, or a stop text came
    MLXCEL_LENGTH, // max_tokens, or the context is full
    MLXCEL_CANCELLED,
};
MLXCEL_API enum mlxcel_finish mlxcel_generate_finish(const struct mlxcel_generation *g);

// The tokens of the answer so far, an end-of-sequence token included, and how many the prompt had.
// Valid until the next call.
MLXCEL_API const int32_t *mlxcel_generate_ids(const struct mlxcel_generation *g, size_t *count);
MLXCEL_API size_t mlxcel_generate_prompt_size(const struct mlxcel_generation *g);

MLXCEL_API void mlxcel_generate_close(struct mlxcel_generation *g); // NULL is fine

#ifdef __cplusplus
}
#endif

#endif
