// ft validate: checks everything that can be checked before a run. Every error has exit code 2.
#pragma once
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct ValidateArgs : ConfigArgs {
  bool json = false;  // print the verdict on each key of DeepSpeed's file as JSON
};
Exit validate(const ValidateArgs&);

}  // namespace ft
