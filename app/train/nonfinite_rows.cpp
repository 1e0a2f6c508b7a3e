#include "app/train/nonfinite_rows.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "engine/core/error.h"
#include "engine/files/json.h"

namespace ft {
namespace {

std::span<const std::int32_t> part(const std::vector<std::int32_t>& all, std::int32_t begin,
                                   std::int32_t end) {
  return std::span(all).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

}  // namespace

NonFiniteRows::NonFiniteRows(std::string path, const BatchSource& batches,
                             std::shared_ptr<const Tokenizer> tokenizer, Report& warned)
    : path_(std::move(path)), batches_(batches), tokenizer_(std::move(tokenizer)), warned_(warned) {}

void NonFiniteRows::nonfinite(const NonFiniteStep& step) {
  try {
    RunFile(path_, /*keep=*/true).append(rows_of(step));
  } catch (const UserError& e) {
    warned_.warning(e.what());
  }
}

std::string NonFiniteRows::rows_of(const NonFiniteStep& step) const {
  std::string text;
  const auto add = [&](Json& row, const char* ids, const char* words, std::span<const std::int32_t> tokens) {
    row[ids] = std::vector<std::int32_t>(tokens.begin(), tokens.end());
    if (tokenizer_) row[words] = tokenizer_->decode(tokens, false);
  };
  for (std::int64_t i = step.begin; i < step.end; ++i) {
    const Batch batch = batches_.batch(step.epoch, i);
    for (std::size_t s = 0; s + 1 < batch.starts.size(); ++s) {
      Json row = {{"step", step.step},
                  {"micro_batch", i - step.begin},
                  {"sequence", s},
                  {"not_finite", std::isfinite(step.loss) ? "grad_norm" : "loss"}};
      add(row, "input_ids", "text", part(batch.input_ids, batch.starts[s], batch.starts[s + 1]));
      if (!batch.source_ids.empty())
        add(row, "source_ids", "source",
            part(batch.source_ids, batch.source_starts[s], batch.source_starts[s + 1]));
      text += json_text(row, -1) + "\n";
    }
  }
  return text;
}

}  // namespace ft
