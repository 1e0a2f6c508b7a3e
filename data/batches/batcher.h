// Cuts a Dataset into micro-batches. A row is a sample or, with packing, several samples or parts of them
// that share max_seq_length tokens. A micro-batch is `batch_size` rows; the last one of an epoch may have
// fewer. Nothing is dropped and, by default, nothing is padded.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "data/batches/packing.h"
#include "data/config.h"
#include "data/embed/batch.h"
#include "data/preference/batch.h"
#include "data/rows/dataset.h"
#include "data/rows/seq2seq.h"
#include "engine/core/batch.h"
#include "engine/core/random.h"

namespace ft {

struct BatcherOptions {
  std::int64_t batch_size = 1;  // a new order in every epoch, else the order of the data
  bool shuffle = false;         // another order in every epoch, else the order of the data
  std::uint64_t seed = 0;
  std::int64_t pack_to = 0;  // length of a pack in tokens; 0: no packing
  PackingStrategy packing = PackingStrategy::bfd;
  std::int64_t pad_to = 0;  // pads rows to this many tokens, without labels or loss; 0: no padding
  std::int32_t pad_id = 0;
  Seq2Seq seq2seq = {};        // for data of encoder-decoders
  AnswerTargets answers = {};  // for objectives that compare answers
  // Classifications: the padding token. A text's last token before padding has the label; empty: tokens have
  // classes.
  std::optional<std::int32_t> padding = {};
  TextTargets texts = TextTargets::last;
  std::int64_t group = 1;  // number of neighbouring rows that stay together in shuffling
  // Returns an epoch's samples in order, as many as the data has; null: each sample once. Not with packing.
  std::function<std::vector<std::int64_t>(std::int64_t epoch)> chosen = {};
};

// Returns the options that the settings describe. `pad_id` may be any token; nothing depends on it.
BatcherOptions batcher_options(const DataConfig& config, std::int64_t batch_size, bool shuffle,
                               std::uint64_t seed, std::int32_t pad_id = 0);

class Batcher : public BatchSource {
 public:
  Batcher(Dataset data, const BatcherOptions& options);

  std::int64_t batches_per_epoch() const override;
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;

  // Returns the labels of the tokens of batch(epoch, i), kIgnored for padding. For data of decoders.
  std::vector<std::int32_t> labels(std::int64_t epoch, std::int64_t i) const;

  // Sets the reference model's log-probabilities of the data's sequences; batches contain them from then on.
  void set_reference(std::vector<double> logps) { reference_ = std::move(logps); }

  const Dataset& data() const { return data_; }
  const BatcherOptions& options() const { return options_; }
  std::int64_t rows() const { return rows_; }  // samples or packs in a pass
  double fill() const;                         // packing: the share of the packs' tokens that is not padding

 private:
  using Row = std::vector<Stretch>;  // each stretch is a sequence
  using Plan = std::vector<Row>;     // one epoch's rows in order

  Plan make_plan(std::int64_t epoch) const;
  Plan pack(const std::vector<std::int64_t>& order, Random random) const;
  std::shared_ptr<const Plan> plan(std::int64_t epoch) const;
  std::span<const Row> rows_of(const Plan& plan, std::int64_t i) const;
  std::int64_t padding(std::int64_t tokens) const;
  void add_row(Batch&, std::int64_t sample) const;
  AnswerSizes sizes(std::int64_t sample) const;
  void add_reference(Compared&) const;
  std::int64_t targets(const Stretch& stretch) const;
  void add_pair(BatchShape& shape, std::int64_t sample) const;
  BatchShape shape_of_answers(std::span<const Row>) const;

  Dataset data_;
  BatcherOptions options_;
  std::vector<std::int64_t> targets_;  // by sample
  std::vector<AnswerSizes> answers_;   // by sample; empty: of examples
  std::vector<double> reference_;      // by sequence; empty: not known
  std::vector<Stretch> pieces_;        // samples, cut to the length of a pack
  std::int64_t rows_ = 0;
  // The last plan. It is shared, because a rank may still read it while another rank is an epoch ahead.
  mutable std::shared_ptr<const Plan> plan_;
  mutable std::int64_t plan_epoch_ = -1;
  mutable std::mutex mutex_;
};

// Returns the shapes, over the epochs [0, epochs), that no other shape exceeds in every number. The batch
// that takes most memory is among them.
std::vector<BatchShape> largest_shapes(const BatchSource& source, std::int64_t epochs);

}  // namespace ft
