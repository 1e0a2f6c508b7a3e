// Rows of tokens on their way to their experts. If each rank has only some of a layer's experts, rows are
// sent to the rank that has their expert, and the expert's results are sent back (Lepikhin et al., "GShard",
// 2021). A rank's own rows are sorted by expert. The rows that it has for its experts are sorted by expert,
// then by rank.
#pragma once
#include <vector>

#include "engine/parallel/cut.h"
#include "engine/pass/context.h"

namespace ft {

// Limits on the rows that an expert may get from one rank's tokens.
struct ExpertRoom {
  std::int64_t experts = 0, choices = 0;
  double factor = 0;  // capacity as a multiple of an even share of the rows; 0: no limit

  // The most rows of one expert for this many tokens; a token chooses an expert at most once.
  std::int64_t of_one(std::int64_t tokens) const;
  std::int64_t of_all(std::int64_t tokens) const {
    return std::min(tokens * choices, experts * of_one(tokens));
  }
  bool drops(std::int64_t tokens) const { return of_one(tokens) < tokens; }
};

class ExpertRows {
 public:
  // Makes rows for experts that are all on this rank. starts (E + 1): first row of each expert, among the
  // rows of this rank's tokens. room: the most rows that there may be.
  static ExpertRows here(std::vector<std::int32_t> starts, std::int64_t room);
  // Makes rows for experts that are spread evenly over the ranks, to which the rows are sent. counts (E):
  // number of rows by expert. In a plan, where ranks send nothing, the same counts are used for every rank;
  // they give this rank the most rows. of: a module, for messages.
  static ExpertRows among(Ctx&, Communicator& ranks, const std::vector<std::int32_t>& starts,
                          const std::vector<std::int32_t>& counts, std::int64_t tokens, const ExpertRoom&,
                          std::string_view of);

  // Number of rows of this rank's tokens.
  std::int64_t own() const { return own_; }
  // Rows for this rank's experts: their number, the largest possible number, and the first row of each
  // expert.
  std::int64_t rows() const { return starts_.back(); }
  std::int64_t room() const { return room_; }
  const std::vector<std::int32_t>& starts() const { return starts_; }
  bool travel() const { return ranks_ != nullptr; }

  // y (rows(), C) = all ranks' rows for this rank's experts. x: rows of this rank's tokens, dense.
  void there(Ctx&, Tensor y, Tensor x) const;
  // y = results for the rows of this rank's tokens, dense. x: results of this rank's experts.
  void back(Ctx&, Tensor y, Tensor x) const;

 private:
  void move(Ctx&, Tensor to, const std::vector<std::int64_t>& coming, Tensor from,
            const std::vector<std::int64_t>& leaving) const;

  Communicator* ranks_ = nullptr;
  std::string_view of_;
  std::vector<std::int32_t> starts_{0};  // (own experts + 1)
  std::int64_t room_ = 0, own_ = 0;
  std::vector<std::int64_t> leaving_, coming_;  // (ranks) number of rows sent to, and received from, each
  // (rows()) i32: for each row of this rank's experts, its index among the rows as they arrive
  Tensor places_;
};

}  // namespace ft
