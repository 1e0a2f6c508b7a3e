// Prompts divided among ranks. Each rank answers its own prompts; then all ranks get all answers.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/generate/generator.h"
#include "engine/ranks/communicator.h"

namespace ft {

// Returns this rank's prompts: prompt i, counted from 0, belongs to rank i % ranks.
std::vector<Prompt> own_prompts(std::span<const Prompt> all, const Communicator&);

// Sends every answer to all ranks. answers[i], of prompt i, must be set on the rank that made it.
void share_answers(Communicator&, std::vector<std::vector<std::int32_t>>& answers);

// For Generator::run, if parameters are gathered for every pass, so that ranks must make passes together.
Generator::AnyRank asked_of_all(const ParameterStore&);

}  // namespace ft
