// The arguments of every command in which a model answers.
#pragma once
#include <string>
#include <vector>

namespace ft {

struct AnswererArgs {
  std::string model;                   // a folder
  std::string adapter;                 // empty: none
  std::string dtype = "float32";       // of the computation: float32, bfloat16, float16; auto: the model's
  std::string quantize;                // of its weights: nf4, fp4, int8; empty: none
  std::string quantize_head;           // int8; empty: as --quantize has it
  std::vector<std::string> overrides;  // generation.key=value
  bool conversation = false;           // data.chat_template counts
};

}  // namespace ft
