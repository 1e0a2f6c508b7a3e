// ft validate: everything that can be known before a run starts. Whatever is wrong, the exit code is 2.
#pragma once
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct ValidateArgs : ConfigArgs {
  bool json = false;  // what becomes of each key of DeepSpeed's file, as one object
};
Exit validate(const ValidateArgs&);

}  // namespace ft
