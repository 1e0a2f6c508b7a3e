// Sampling settings of the answers that a run generates, and the memory for them.
#pragma once
#include "app/config/config.h"
#include "data/preference/generated.h"
#include "data/preference/own_answers.h"
#include "engine/generate/config.h"
#include "engine/layers/attention/kv_cache.h"

namespace ft {

// Returns the settings. Tokens depend only on training.seed, the answer's number and the token's place in it.
GenerationConfig sampling_of(const RunConfig&);

// Returns the shape of a rank's part of a generation, with generation.batch_size answers at a time. `prompt`,
// `answer`: tokens of the longest ones.
GenerationShape generation_shape_of(const RunConfig&, std::int64_t prompt, std::int64_t answer,
                                    std::int64_t answers);
// Returns the largest shape of training's and evaluations' generations; either may be null.
GenerationShape generation_shape_of(const RunConfig&, const GeneratedAnswers* train,
                                    const GeneratedAnswers* eval);

// Returns the shape of the answers of a step of examples that models answer.
GenerationShape generation_shape_of(const RunConfig&, const OwnAnswers&);

// Returns the number of a generation's answers that a rank generates.
std::int64_t answers_of_rank(const RunConfig&);

}  // namespace ft
