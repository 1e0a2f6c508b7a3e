#include "data/format.h"

#include <algorithm>
#include <array>

#include "data/json_row.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr std::string_view kTypes =
    "auto, prompt_completion, alpaca, messages, sharegpt, text, translation, preference_chosen, tokenized";

struct Kind {
  std::string_view type;
  std::vector<std::string_view> columns;  // what `columns` may rename
};

const Kind* kind_of(std::string_view type) {
  static const std::array<Kind, 8> kinds{Kind{"tokenized", {"input_ids", "labels", "attention_mask"}},
                                         Kind{"prompt_completion", {"prompt", "completion", "response"}},
                                         Kind{"alpaca", {"instruction", "input", "output"}},
                                         Kind{"messages", {"messages"}},
                                         Kind{"sharegpt", {"conversations"}},
                                         Kind{"translation", {"translation"}},
                                         Kind{"preference_chosen", {"prompt", "chosen"}},
                                         Kind{"text", {"text"}}};
  const auto it = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.type == type; });
  return it == kinds.end() ? nullptr : &*it;
}

bool contains(std::span<const std::string> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The first type, in a fixed order, whose fields the row has.
std::string detect(const FormatContext& context, std::span<const std::string> names, const Place& at) {
  const auto has = [&](const char* name) { return contains(names, column(context.dataset, name)); };
  const auto any = [&](std::initializer_list<const char*> list) {
    return std::any_of(list.begin(), list.end(), has);
  };
  if (has("input_ids")) return "tokenized";
  if (has("messages")) return "messages";
  if (has("conversations")) return "sharegpt";
  if (has("chosen") && has("rejected")) return "preference_chosen";
  if (any({"prompt", "question"}) && any({"completion", "response", "answer"})) return "prompt_completion";
  if (has("instruction") && has("output")) return "alpaca";
  if (has("translation")) return "translation";
  if (has("text")) return "text";
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + printable(name, 40);
  at.fail(
      str("cannot tell the type of the rows from the names of their fields: ", list.empty() ? "none" : list,
          ". Set ", context.setting, ".type (", kTypes, ") and ", context.setting, ".columns"));
}

}  // namespace

std::string column(const DatasetConfig& dataset, const std::string& name) {
  const auto it = dataset.columns.find(name);
  return it == dataset.columns.end() ? name : it->second;
}

std::unique_ptr<Format> make_format(const FormatContext& context, std::string_view first_row,
                                    const Place& at) {
  const std::vector<std::string> names = row_names(first_row, at);
  const std::string type = context.dataset.type == "auto" ? detect(context, names, at) : context.dataset.type;
  const Kind* kind = kind_of(type);
  require(kind != nullptr, "a type of rows that is not known");
  for (const auto& [ours, theirs] : context.dataset.columns) {
    if (std::find(kind->columns.begin(), kind->columns.end(), ours) != kind->columns.end()) continue;
    std::string list;
    for (const auto name : kind->columns) list += str(list.empty() ? "" : ", ", name);
    throw UserError(Exit::config, str(context.setting, ".columns.", printable(ours), ": rows of type ", type,
                                      " have no such column; they have ", list));
  }
  if (context.seq2seq && (type == "text" || type == "messages" || type == "sharegpt"))
    throw UserError(Exit::config,
                    str(context.setting, ": rows of type ", type,
                        " have no source and target, which an encoder-decoder needs; it takes "
                        "prompt_completion, alpaca, translation, preference_chosen and tokenized"));
  if (type == "tokenized") return make_tokenized_format(context);
  if (type == "text") return make_text_format(context);
  if (type == "alpaca") return make_alpaca_format(context);
  if (type == "translation") return make_translation_format(context);
  if (type == "messages" || type == "sharegpt") return make_chat_format(context, type == "sharegpt");
  return make_prompt_format(context, names, type == "preference_chosen");
}

}  // namespace ft
