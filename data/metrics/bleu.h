// Corpus BLEU (Papineni et al., "BLEU: a method for automatic evaluation of machine translation", 2002) with
// one reference for each segment, as sacreBLEU computes it (Post, "A call for clarity in reporting BLEU
// scores", 2018).
//   score = BP exp(mean of ln p_n, n = 1..4)   p_n in per cent: matched n-grams / the hypotheses' n-grams
//   BP    = exp(1 - r / c) if the hypotheses' c tokens are fewer than the references' r, else 1
// If an order has no match, p_n = 100 / (2^k c_n) for the k-th such order (NIST's smoothing, "exp").
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace ft::metrics {

struct Bleu {
  double score = 0;                    // 0 to 100
  std::array<double, 4> precisions{};  // 0 to 100, for n-grams of 1 to 4 tokens
  double brevity_penalty = 1;
  std::int64_t hypothesis_tokens = 0, reference_tokens = 0;
};

// Returns the score of hypotheses[i] against references[i].
Bleu corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::string> references);

// Describes the computation in sacreBLEU's words; the program's version follows.
inline constexpr const char* kBleuSignature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp";

}  // namespace ft::metrics
