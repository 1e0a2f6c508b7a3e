// Rows of tokens on their way to their experts. Where ranks have dealt out a layer's experts, rows travel to
// the rank that has their expert, and what it makes of them travels back (Lepikhin et al., "GShard", 2021).
// Every rank's own rows lie expert by expert, and so do those of its experts, there rank by rank.
#pragma once
#include <vector>

#include "engine/parallel/cut.h"
#include "engine/pass/context.h"

namespace ft {

// How many rows of one rank's tokens an expert may get.
struct ExpertRoom {
  std::int64_t experts = 0, choices = 0;
  double factor = 0;  // of what each would get if all got as many; 0: as many as there are

  // The rows of one expert for this many tokens, each of which chooses an expert once.
  std::int64_t of_one(std::int64_t tokens) const;
  std::int64_t of_all(std::int64_t tokens) const {
    return std::min(tokens * choices, experts * of_one(tokens));
  }
  bool drops(std::int64_t tokens) const { return of_one(tokens) < tokens; }
};

class ExpertRows {
 public:
  // starts (E + 1): where the rows of this rank's tokens begin, by expert.
  // Where they stay: room is how many there may be.
  static ExpertRows here(std::vector<std::int32_t> starts, std::int64_t room);
  // Where they travel among ranks, each of which has as many experts. counts (E): the number of them, by
  // expert; in a plan, in which nobody else says theirs, what every rank's are when this one gets the most.
  // of: a module, for messages.
  static ExpertRows among(Ctx&, Communicator& ranks, const std::vector<std::int32_t>& starts,
                          const std::vector<std::int32_t>& counts, std::int64_t tokens, const ExpertRoom&,
                          std::string_view of);

  // Rows of this rank's tokens, which it was made with.
  std::int64_t own() const { return own_; }
  // Rows of this rank's experts; how many there may be, and where each of them begins.
  std::int64_t rows() const { return starts_.back(); }
  std::int64_t room() const { return room_; }
  const std::vector<std::int32_t>& starts() const { return starts_; }
  bool travel() const { return ranks_ != nullptr; }

  // y (rows(), C) = the rows of all ranks' tokens for these experts; x: those of this rank's tokens, dense.
  void there(Ctx&, Tensor y, Tensor x) const;
  // y = what has become of this rank's tokens' rows, dense, from x of these experts'.
  void back(Ctx&, Tensor y, Tensor x) const;

 private:
  void move(Ctx&, Tensor to, const std::vector<std::int64_t>& coming, Tensor from,
            const std::vector<std::int64_t>& leaving) const;

  Communicator* ranks_ = nullptr;
  std::string_view of_;
  std::vector<std::int32_t> starts_{0};  // (own experts + 1)
  std::int64_t room_ = 0, own_ = 0;
  std::vector<std::int64_t> leaving_, coming_;  // (ranks) rows to and from each
  Tensor places_;  // (rows()) i32: of each row of these experts, where it has come to lie
};

}  // namespace ft
