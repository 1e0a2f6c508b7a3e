// Settings of a model that embeds texts, with the names of sentence-transformers.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/rules.h"
#include "engine/core/words.h"

namespace ft {

// The embedding of a text: its last token's state, or the mean of all its tokens' states.
enum class PoolingMode : std::uint8_t { lasttoken, mean };
constexpr auto words(PoolingMode) {
  using enum PoolingMode;
  return to_words<PoolingMode>({{lasttoken, "lasttoken"}, {mean, "mean"}});
}

struct EmbedSettings {
  std::optional<PoolingMode> pooling_mode;
  std::optional<bool> normalize_embeddings;
  std::optional<double> scale;
  std::vector<std::int64_t> matryoshka_dims;

  void fields(auto& f) {
    f("pooling_mode", pooling_mode,
      "embed: a text's embedding: the state of its last token (lasttoken) or the mean of all (mean); null: "
      "as 1_Pooling/config.json in the model's folder says, else lasttoken.");
    f("normalize_embeddings", normalize_embeddings,
      "embed: results have length 1; null: as modules.json in the model's folder says, else true. The loss "
      "compares directions either way.");
    f("scale", scale, "embed: factor of cosines in the loss, the inverse of a temperature; null: 20.",
      above(0));
    f("matryoshka_dims", matryoshka_dims,
      "embed: the loss is the sum over embeddings cut to these first columns, so that short ones are "
      "useful too; null: only all columns.",
      or_null());
  }
};

}  // namespace ft
