// Prompts that ranks share out: each answers its own, then all have all answers.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/generate/generator.h"
#include "engine/ranks/communicator.h"

namespace ft {

// The part of the prompts, numbered from 0, that this rank answers: ranks take turns.
std::vector<Prompt> own_prompts(std::span<const Prompt> all, const Communicator&);

// answers[i], of prompt i, is known to the rank that made it; afterwards to all.
void share_answers(Communicator&, std::vector<std::vector<std::int32_t>>& answers);

// For Generator::run: where parameters are gathered for every pass, ranks make their passes together.
Generator::AnyRank asked_of_all(const ParameterStore&);

}  // namespace ft
