// nonfinite.jsonl: the sequences of each step whose loss or gradient was not finite, one a line, with their
// tokens and their text.
#pragma once
#include <memory>
#include <string>

#include "data/tokenizers/tokenizer.h"
#include "engine/train/reports/report.h"
#include "engine/train/reports/run_file.h"

namespace ft {

class NonFiniteRows final : public Report {
 public:
  // tokenizer: null if the data has no text. `batches` and `warned` outlive this object.
  NonFiniteRows(std::string path, const BatchSource& batches, std::shared_ptr<const Tokenizer> tokenizer,
                Report& warned);
  void nonfinite(const NonFiniteStep& step) override;

 private:
  std::string rows_of(const NonFiniteStep& step) const;

  std::string path_;
  const BatchSource& batches_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Report& warned_;
};

}  // namespace ft
