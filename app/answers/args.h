// The arguments of every command in which a model answers.
#pragma once
#include <string>
#include <vector>

namespace ft {

struct AnswererArgs {
  std::string model;              // a folder
  std::string adapter;            // empty: none
  std::string dtype = "float32";  // computation: float32, bfloat16, float16; auto: as the model's weights
  std::string quantize;           // weights: nf4, fp4, fp8, int8; empty: not quantized
  std::string quantize_head;      // int8; empty: as --quantize says
  std::vector<std::string> overrides;  // generation.key=value
  bool conversation = false;           // data.chat_template may be set
};

}  // namespace ft
