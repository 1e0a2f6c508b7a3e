#include "app/deepspeed/batch.h"

#include <algorithm>

namespace ft::deepspeed {

Batch solve_batch(const GivenBatch& given, int ranks, std::int64_t usual_micro, std::string& mistake) {
  Batch b{.train = 0,
          .micro = given.micro.value_or(0),
          .accumulation = given.accumulation.value_or(1),
          .ranks = ranks};
  if (!given.micro) b.micro = given.train ? *given.train / ranks / b.accumulation : usual_micro;
  if (given.train && given.micro && !given.accumulation) b.accumulation = *given.train / ranks / b.micro;
  b.micro = std::max<std::int64_t>(b.micro, 1);
  b.accumulation = std::max<std::int64_t>(b.accumulation, 1);
  if (static_cast<double>(b.micro) * static_cast<double>(b.accumulation) * ranks > 9e15) {
    mistake = str(b.micro, " x ", b.accumulation, " x ", ranks, " samples are too many");
    return b;
  }
  b.train = b.micro * b.accumulation * ranks;
  if (!given.train || *given.train == b.train) return b;
  const auto part = [](const char* name, const std::optional<std::int64_t>& number) {
    return number ? str(name, " (", *number, ") x ") : std::string();
  };
  const std::string product = part("train_micro_batch_size_per_gpu", given.micro) +
                              part("gradient_accumulation_steps", given.accumulation) +
                              str("ranks (", ranks, ")");
  mistake = given.micro && given.accumulation
                ? str("train_batch_size is ", *given.train, ", and ", product, " is ", b.train)
                : str("train_batch_size is ", *given.train, ", which is not a multiple of ", product);
  b.train = *given.train;
  return b;
}

}  // namespace ft::deepspeed
