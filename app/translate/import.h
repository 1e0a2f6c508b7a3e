// ft import: makes a run.json of another program's file or command line.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct ImportArgs {
  std::string file;                  // "": a command line
  std::vector<std::string> command;  // trl sft --model_name_or_path ...
  std::string from;                  // the program's name; "": the file or the command shows it
  std::string output;                // the file to write; "": stdout
  bool overwrite = false;            // replace that file
  bool strict = false;               // no run.json if a key is missing in ft
  bool json = false;                 // print one object: program, config, keys, warnings, command
};
// Prints run.json on stdout, or writes it into `output`; prints a verdict on each key, warnings and the
// command to type on stderr. Throws UserError (config) without a run.json if `strict` and ft lacks a key, or
// if `output` exists.
Exit import_run(const ImportArgs&);

}  // namespace ft
