#include "app/samples/data_show.h"

#include "app/assembly/built_data.h"
#include "app/samples/show_samples.h"

namespace ft {

Exit data_show(const DataShowArgs& args) {
  RunConfig config = load_config(args.config, args.settings());
  config.data.streaming = false;
  const BuiltData data = build_data(config, vocab_size_of(config), LoadPart::train_and_eval, {});
  Screen aside(Screen::standard_error());
  for (const std::string& text : data.loaded.notes) aside.line(text);
  Screen out(Screen::standard_output());
  if (args.json)
    show_samples_json(data.loaded.train, args.limit, out);
  else
    show_samples(data.loaded.train, data.tokenizer.get(), args.limit.value_or(5), out);
  return Exit::done;
}

}  // namespace ft
