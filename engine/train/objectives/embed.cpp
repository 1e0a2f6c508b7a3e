// Embeddings that are close if their texts belong together: sentence-transformers'
// MultipleNegativesRankingLoss, alone or in its MatryoshkaLoss. Documents of all rows of a micro-batch, on
// all ranks, are the negatives of every anchor, in addition to a row's own (gather_across_devices there).
#include "engine/train/objectives/embed.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/ops/ops.h"
#include "engine/train/objectives/config.h"
#include "engine/train/objectives/contrast.h"
#include "engine/train/objectives/embedded.h"
#include "engine/train/objectives/host_loss.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

constexpr std::int64_t kRecalls[] = {1, 5, 10};

// A batch's vectors, sorted: the first sequence of a row is its anchor, the next its positive.
struct Sorted {
  Vectors anchors, documents;
  std::vector<std::size_t> positives;               // by anchor
  std::vector<std::size_t> anchor_at, document_at;  // indices of their sequences

  Sorted(const Batch& b, const Vectors& all) {
    anchors.width = documents.width = all.width;
    const std::vector<std::int32_t>& first = b.compared.first_text;
    for (std::size_t row = 0; row + 1 < first.size(); ++row) {
      const auto begin = static_cast<std::size_t>(first[row]), end = static_cast<std::size_t>(first[row + 1]);
      anchor_at.push_back(begin);
      positives.push_back(document_at.size());
      for (std::size_t s = begin + 1; s < end; ++s) document_at.push_back(s);
    }
    for (const auto& [from, to] : {std::pair{&anchor_at, &anchors}, std::pair{&document_at, &documents}})
      for (const std::size_t s : *from) to->values.insert(to->values.end(), all[s].begin(), all[s].end());
  }
};

// Numbers of all ranks, in the order of ranks.
class Gathered {
 public:
  Gathered(Ctx& c, Communicator& comm, const std::vector<double>& own)
      : c_(c), comm_(comm), size_(own.size()) {
    std::vector<double> sizes(static_cast<std::size_t>(comm.size()));
    sizes[static_cast<std::size_t>(comm.rank())] = static_cast<double>(own.size());
    add_up(sizes);
    const auto before = sizes.begin() + comm.rank();
    first = static_cast<std::size_t>(std::accumulate(sizes.begin(), before, 0.0));
    all.resize(static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), 0.0)));
    std::copy(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(first));
    add_up(all);
  }
  // Adds up numbers, one for each of `all`, over ranks. Returns this rank's part of the sums.
  std::vector<double> own_sums(std::vector<double> numbers) const {
    add_up(numbers);
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(size_)};
  }

  std::vector<double> all;
  std::size_t first = 0;  // index of this rank's numbers

 private:
  // Adds up in parts of a fixed size, because memory is planned before the count of numbers is known.
  void add_up(std::vector<double>& numbers) const {
    constexpr std::int64_t kAtOnce = 1 << 16;
    Scope scratch(c_.scratch);
    const Tensor room = c_.scratch.take({kAtOnce}, DType::f64);
    for (std::size_t from = 0; from < numbers.size(); from += kAtOnce) {
      const std::span part =
          std::span(numbers).subspan(from, std::min<std::size_t>(kAtOnce, numbers.size() - from));
      const Tensor used{room.data, DType::f64, {std::ssize(part)}};
      c_.ops.upload(used, part.data());
      comm_.all_reduce(used);
      c_.ops.download(part.data(), used);
    }
  }

  Ctx& c_;
  Communicator& comm_;
  std::size_t size_;
};

class Embed final : public Objective {
 public:
  explicit Embed(const EmbedSettings& c) : scale_(c.scale.value_or(20)), dims_(c.matryoshka_dims) {}

  std::int64_t count(const BatchShape& s) const override { return s.compared; }
  // Compares only within the batch, so that an evaluation does not depend on the number of ranks.
  void forward(const Pass& p, const Batch& b, Tensor loss) override {
    HostLoss of(loss, 0, [&](Ctx&, std::span<const float> states, std::span<double>) {
      const Sorted own(b, embedded(b, states));
      return add(contrast(own.anchors, own.documents, own.positives, scale_, dims(own))).loss;
    });
    p.policy.model->forward(p.context, *p.policy.store, b, &of);
  }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    Communicator& comm = p.policy.store->communicator();
    HostLoss of(loss, scale, [&](Ctx& c, std::span<const float> states, std::span<double> slopes) {
      const Vectors all = embedded(b, states);
      const Sorted own(b, all);
      std::vector<double> back(all.values.size());
      const double sum = among_ranks(c, comm, own, back);
      embedded_back(b, back, all.width, slopes);
      return sum;
    });
    p.policy.model->forward_backward(p.context, *p.policy.store, b, &of);
  }
  std::vector<std::string> columns() const override {
    std::vector<std::string> names;
    for (const std::int64_t k : kRecalls) names.push_back(str("recall@", k));
    return names;
  }
  std::vector<double> take_columns() override {
    std::vector<double> sums = std::exchange(sums_, {});
    sums.resize(2 * std::size(kRecalls));
    return sums;
  }

 private:
  // Returns the loss of this rank's anchors among the documents of all ranks. Sets the derivative of all
  // ranks' losses by this rank's vectors.
  double among_ranks(Ctx& c, Communicator& comm, const Sorted& own, std::vector<double>& back) {
    Contrasted result;
    if (comm.size() == 1) {
      result = add(contrast(own.anchors, own.documents, own.positives, scale_, dims(own)));
    } else {
      const Gathered documents(c, comm, own.documents.values);
      std::vector<std::size_t> positives = own.positives;
      for (std::size_t& at : positives) at += documents.first / own.documents.width;
      result = add(contrast(own.anchors, {documents.all, own.documents.width}, positives, scale_, dims(own)));
      result.documents.resize(documents.all.size());
      result.documents = documents.own_sums(std::move(result.documents));
    }
    const auto put = [&](const std::vector<std::size_t>& sequences, const std::vector<double>& from) {
      const auto width = static_cast<std::ptrdiff_t>(own.anchors.width);
      for (std::size_t i = 0; i < sequences.size(); ++i)
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i) * width, width,
                    back.begin() + static_cast<std::ptrdiff_t>(sequences[i]) * width);
    };
    put(own.anchor_at, result.anchors);
    put(own.document_at, result.documents);
    return result.loss;
  }

  std::vector<std::int64_t> dims(const Sorted& own) const {
    if (own.anchors.size() == 0) return {};
    return dims_.empty() ? std::vector{static_cast<std::int64_t>(own.anchors.width)} : dims_;
  }

  Contrasted add(Contrasted result) {
    sums_.resize(2 * std::size(kRecalls));
    for (const std::int64_t rank : result.ranks)
      for (std::size_t k = 0; k < std::size(kRecalls); ++k) {
        sums_[2 * k] += rank < kRecalls[k] ? 1 : 0;
        sums_[2 * k + 1] += 1;
      }
    return result;
  }

  double scale_;
  std::vector<std::int64_t> dims_;
  std::vector<double> sums_;
};

void check_embed(const ObjectiveConfig& c, const Refuse& refuse) {
  std::vector<std::int64_t> seen;
  for (const std::int64_t dim : c.matryoshka_dims) {
    if (dim < 1) refuse(str("objective.matryoshka_dims: ", dim, " is not a number of columns"));
    if (std::count(seen.begin(), seen.end(), dim) > 0)
      refuse(str("objective.matryoshka_dims: ", dim, " is there twice"));
    seen.push_back(dim);
  }
}

std::unique_ptr<Objective> make_embed(const ObjectiveConfig& c, const ObjectiveParts&) {
  return std::make_unique<Embed>(c);
}

}  // namespace

const ObjectiveKind objectives::kEmbed{.name = "embed",
                                       .rate = {2e-5, 2e-4, &schedules::kLinear},
                                       .rows = ObjectiveRows::texts,
                                       .scores = true,
                                       .settings = settings_of<EmbedSettings>,
                                       .check = check_embed,
                                       .make = make_embed};

}  // namespace ft
