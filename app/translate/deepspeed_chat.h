// Parts that the steps of DeepSpeed-Chat share.
#pragma once
#include <string>

#include "app/translate/flag.h"

namespace ft::translate {

// Makes data.datasets of --data_path: of each, the share that --data_split gives to a step (0 to 2). Rows
// from the hub have the type `type`. Throws UserError (config) for a wrong split.
void choose_chat_sources(const Given&, int step, const char* type, Draft&);
// Sets the type of the computation by --dtype.
void choose_chat_precision(const Given&, Draft&);

}  // namespace ft::translate
