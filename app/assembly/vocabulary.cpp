#include "app/assembly/vocabulary.h"

#include <algorithm>

#include "app/assembly/reward_model.h"
#include "data/new_tokens.h"
#include "data/tokenizer.h"

namespace ft {

std::int64_t vocabulary_size(const RunConfig& config, std::int64_t own) {
  std::int64_t rows = own;
  if (const auto more = new_tokens(config.data); !more.empty())
    rows = std::max(rows, make_tokenizer(config.model.tokenizer(), more)->size());
  const std::int64_t multiple = config.model.resize_token_embeddings_to_multiple_of.value_or(1);
  return (rows + multiple - 1) / multiple * multiple;
}

void resize_vocabulary(MadeModel& made, std::int64_t rows) {
  const std::vector<std::string> names = weights_by_token(made.info);
  const auto has = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  EachLinear linears([&](Linear& l) {
    if (has(l.name + ".weight")) l.out = rows;
  });
  made.model->visit(linears);
  EachParameter parameters([&](Parameter& p) {
    if (has(p.name) || has(p.stored_name())) p.shape.dims[0] = rows;
  });
  made.model->visit(parameters);
  made.info.vocab_size = rows;
}

std::vector<std::string> weights_by_token(const ModelInfo& info) {
  std::vector<std::string> names{info.embedding};
  if (info.head_weight() != kScore) names.insert(names.end(), {info.head_weight(), info.head + ".bias"});
  names.insert(names.end(), info.embedding_copies.begin(), info.embedding_copies.end());
  return names;
}

}  // namespace ft
