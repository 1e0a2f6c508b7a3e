#include "app/assembly/vocabulary.h"

#include <algorithm>
#include <filesystem>

#include "data/tokenizers/new_tokens.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/files/file.h"
#include "engine/layers/linear.h"

namespace ft {

std::int64_t vocabulary_size(const RunConfig& config, std::int64_t own) {
  std::int64_t rows = own;
  if (const auto more = new_tokens(config.data); !more.empty())
    rows = std::max(rows, make_tokenizer(config.model.tokenizer(), more)->size());
  const std::int64_t multiple = config.model.resize_token_embeddings_to_multiple_of.value_or(1);
  return (rows + multiple - 1) / multiple * multiple;
}

void resize_vocabulary(MadeModel& made, std::int64_t rows) {
  if (!made.info.other_table.empty())
    throw UserError(Exit::config, str("data.new_tokens: ", made.info.other_table,
                                      " has rows for the model's own tokens only; leave out new tokens and "
                                      "model.resize_token_embeddings_to_multiple_of"));
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
  if (info.writes) names.insert(names.end(), {info.head_weight(), info.head + ".bias"});
  names.insert(names.end(), info.embedding_copies.begin(), info.embedding_copies.end());
  return names;
}

bool has_tokenizer(const std::string& folder) {
  for (const char* file : {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json"})
    if (path_exists(join_path(folder, file))) return true;
  return false;
}

void require_same_tokens(const RunConfig& config, const std::string& setting, const std::string& other) {
  namespace fs = std::filesystem;
  const std::string& own = config.model.tokenizer();
  if (!has_tokenizer(other) || !(has_tokenizer(own) || fs::is_regular_file(own))) return;
  if (fs::equivalent(other, own)) return;
  const auto theirs = make_tokenizer(other), ours = make_tokenizer(own, new_tokens(config.data));
  for (std::int32_t id = 0; id < std::min(theirs->size(), ours->size()); ++id) {
    const std::string a = theirs->token(id), b = ours->token(id);
    if (!a.empty() && !b.empty() && a != b)  // ids without a token may differ
      throw UserError(Exit::config, str(setting, ": ", printable(other), " has another tokenizer: token ", id,
                                        " is \"", printable(a), "\" there and \"", printable(b),
                                        "\" in the model's; take a model of the same family"));
  }
}

}  // namespace ft
