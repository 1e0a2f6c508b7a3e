// Cuts a Dataset into micro-batches. A row is a sample or, with packing, several samples or parts of them
// that share max_seq_length tokens. A micro-batch is `batch_size` rows; the last one of an epoch may have
// fewer. Nothing is dropped and, by default, nothing is padded.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "data/batches/packing.h"
#include "data/config.h"
#include "data/preference/batch.h"
#include "data/rows/dataset.h"
#include "data/rows/seq2seq.h"
#include "engine/core/batch.h"
#include "engine/core/random.h"

namespace ft {

struct BatcherOptions {
  std::int64_t batch_size = 1;  // rows of a micro-batch
  bool shuffle = false;         // another order in every epoch, else the order of the data
  std::uint64_t seed = 0;
  std::int64_t pack_to = 0;  // tokens of a pack; 0: no packing
  PackingStrategy packing = PackingStrategy::bfd;
  std::int64_t pad_to = 0;  // rows are filled up to this many tokens, which no label and no loss sees; 0: not
  std::int32_t pad_id = 0;
  Seq2Seq seq2seq = {};        // where the data is an encoder-decoder's
  AnswerTargets answers = {};  // where rows are compared
  std::int64_t group = 1;      // rows that stay together when they are shuffled
  // The samples of an epoch, in their order and as many as there are; null: each of them once. Without
  // packing.
  std::function<std::vector<std::int64_t>(std::int64_t epoch)> chosen = {};
};

// Options as the settings ask for them. `pad_id` is any token; nothing depends on it.
BatcherOptions batcher_options(const DataConfig& config, std::int64_t batch_size, bool shuffle,
                               std::uint64_t seed, std::int32_t pad_id = 0);

class Batcher : public BatchSource {
 public:
  Batcher(Dataset data, const BatcherOptions& options);

  std::int64_t batches_per_epoch() const override;
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;

  // The labels of the tokens of batch(epoch, i), kIgnored where it is filled up; of examples of decoders.
  std::vector<std::int32_t> labels(std::int64_t epoch, std::int64_t i) const;

  // The reference's log-probabilities of the data's sequences, which batches bring from here on.
  void set_reference(std::vector<double> logps) { reference_ = std::move(logps); }

  const Dataset& data() const { return data_; }
  const BatcherOptions& options() const { return options_; }
  std::int64_t rows() const { return rows_; }  // samples or packs in a pass
  double fill() const;                         // packing: the share of the packs' tokens that is in use

 private:
  using Row = std::vector<Stretch>;  // each a sequence of its own
  using Plan = std::vector<Row>;     // one epoch's rows in order

  Plan make_plan(std::int64_t epoch) const;
  Plan pack(const std::vector<std::int64_t>& order, Random random) const;
  std::shared_ptr<const Plan> plan(std::int64_t epoch) const;
  std::span<const Row> rows_of(const Plan& plan, std::int64_t i) const;
  std::int64_t padding(std::int64_t tokens) const;
  void add_reference(Compared&) const;
  std::int64_t targets(const Stretch& stretch) const;
  void add_pair(BatchShape& shape, std::int64_t sample) const;

  Dataset data_;
  BatcherOptions options_;
  std::vector<std::int64_t> targets_;  // (samples)
  std::vector<double> reference_;      // (sequences); empty: not known
  std::vector<Stretch> pieces_;        // samples, cut where they are longer than a pack
  std::int64_t rows_ = 0;
  // The plan last asked for; shared because a rank may still read one while another rank is an epoch ahead.
  mutable std::shared_ptr<const Plan> plan_;
  mutable std::int64_t plan_epoch_ = -1;
  mutable std::mutex mutex_;
};

// The shapes, over the epochs [0, epochs), that no other shape exceeds in every number: the batch that takes
// most memory is among them.
std::vector<BatchShape> largest_shapes(const BatchSource& source, std::int64_t epochs);

}  // namespace ft
