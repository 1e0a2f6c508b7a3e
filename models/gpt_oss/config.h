// The config.json of gpt-oss.
#pragma once
#include "models/moe/config.h"

namespace ft::gpt_oss {

struct Config : moe::Config {
  float limit = 7, steepness = 1.702f;  // of the experts' gates: math::limited_gate
  bool mxfp4 = false;                   // the experts' matrices are in MXFP4 in the files
};

// Throws UserError (input) with the file and the key if a key is missing, wrong or not supported.
Config read_config(const std::string& config_json);

}  // namespace ft::gpt_oss
