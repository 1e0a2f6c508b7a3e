// How a run's own answers are sampled, and what memory that takes.
#pragma once
#include "app/config/config.h"
#include "data/preference/generated.h"
#include "engine/generate/config.h"
#include "engine/layers/kv_cache.h"

namespace ft {

// Tokens are a function of training.seed, the answer's number and the token's place in it.
GenerationConfig sampling_of(const RunConfig&);

// The shape of a rank's part of a generation, generation.batch_size answers at a time; `prompt` is the
// longest.
GenerationShape generation_shape_of(const RunConfig&, std::int64_t prompt, std::int64_t answers);
// The largest shape of the generations that are trained on and of those of evaluations, where there are any.
GenerationShape generation_shape_of(const RunConfig&, const GeneratedAnswers* train,
                                    const GeneratedAnswers* eval);

// How many answers of a generation a rank gives.
std::int64_t answers_of_rank(const RunConfig&);

}  // namespace ft
