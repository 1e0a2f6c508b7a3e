// ft eval: the loss over the held-out data, of a model with or without an adapter.
#pragma once
#include <cstdint>
#include <string>

#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct EvalArgs : ConfigArgs {
  std::string adapter;  // empty: lora.adapter_name_or_path, or none
  std::int64_t answers = 0;
  bool json = false;
};
Exit eval(const EvalArgs&);

}  // namespace ft
