#include "lora/tokens.h"

#include <algorithm>
#include <set>

#include "engine/core/error.h"
#include "engine/layers/linear.h"
#include "lora/matching.h"
#include "lora/peft_config.h"

namespace ft::lora {
namespace {

constexpr const char* kSetting = "trainable_token_indices";

[[noreturn]] void refuse(const Origin& origin, const std::string& what) {
  throw UserError(origin.exit, str(origin.prefix, kSetting, ": ", what));
}

std::string embedding_of(const Model& model) {
  return std::string(parent_of(model.vocabulary().embedding.weight.name));
}

// Returns the table's parameter; null: the head has no table.
const Parameter* table_of(Model& model, const std::string& module) {
  const Parameter* table = nullptr;
  EachParameter each([&](Parameter& p) {
    if (p.name == module + ".weight") table = &p;
  });
  model.visit(each);
  return table;
}

std::vector<std::int32_t> checked_ids(const TrainedTokens& wanted, std::int64_t rows, const Origin& origin) {
  std::set<std::int64_t> seen;
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : wanted.ids) {
    if (id < 0 || id >= rows) refuse(origin, str(id, " is not a token: the vocabulary has ", rows));
    if (!seen.insert(id).second) refuse(origin, str(id, " is there twice"));
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

}  // namespace

std::vector<TrainedTokens> tokens_to_train(Model& model, const LoraConfig& config, const Origin& origin) {
  std::vector<TrainedTokens> all =
      trained_tokens(config.trainable_token_indices, origin.prefix + kSetting, origin.exit);
  const std::string embedding = embedding_of(model);
  for (TrainedTokens& t : all) {
    const bool head = !t.module.empty() && ends_with_module(in_peft(origin.head), t.module);
    if (!t.module.empty() && !head && !ends_with_module(embedding, t.module))
      refuse(origin, str("there is no \"", printable(t.module), "\"; the input embedding is ", embedding,
                         ", the head ", in_peft(origin.head)));
    t.module = head ? origin.head : embedding;
  }
  if (all.size() > 2 || (all.size() == 2 && all[0].module == all[1].module))
    refuse(origin, "names a table twice");
  if (!origin.tied_head) return all;
  if (all.size() == 2 && all[0].ids == all[1].ids) {  // as in PEFT: one table, with one set of rows
    std::erase_if(all, [&](const TrainedTokens& t) { return t.module == origin.head; });
    return all;
  }
  if (all.size() == 2 && config.ensure_weight_tying)
    refuse(origin, str("names other tokens of ", embedding, " than of ", in_peft(origin.head),
                       ", which ensure_weight_tying keeps in one table; name the same"));
  if (std::ranges::any_of(all, [&](const TrainedTokens& t) { return t.module == origin.head; }))
    model.vocabulary().untie();
  return all;
}

void train_tokens(Model& model, const std::vector<TrainedTokens>& tokens, const LoraConfig& config,
                  DType dtype, const Origin& origin, Attached& out) {
  for (const TrainedTokens& wanted : tokens) {
    const Parameter* table = table_of(model, wanted.module);
    if (!table) refuse(origin, str("there is no table of ", wanted.module));
    if (table->trainable)
      refuse(origin, str(wanted.module, " is fully trained; leave it out of modules_to_save"));
    if (config.use_dora && std::ranges::find(out.linears, origin.head) != out.linears.end())
      refuse(origin, "not with a head that use_dora rescales; leave the head out of target_modules");
    TokenTable rows{.ids = checked_ids(wanted, table->shape[0], origin),
                    .weight = table->name,
                    .stored = table->stored_name()};
    Parameter values{.name = kPeftPrefix + in_peft(wanted.module) + ".token_adapter.trainable_tokens_delta",
                     .shape = {static_cast<std::int64_t>(rows.ids.size()), table->shape[1]},
                     .dtype = dtype,
                     .trainable = true};
    EmbeddingAndHead& ends = model.vocabulary();
    rows.values = wanted.module == origin.head ? &ends.train_head_rows(std::move(values), rows.ids)
                                               : &ends.train_rows(std::move(values), rows.ids);
    out.tokens.push_back(std::move(rows));
  }
}

}  // namespace ft::lora
