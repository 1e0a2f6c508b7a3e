// ft eval: the loss over the held-out data, of a model with or without an adapter.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/assembly.h"
#include "app/commands.h"
#include "app/screen.h"
#include "engine/io/json.h"
#include "engine/train/trainer.h"

namespace ft {

Exit eval(const EvalArgs& args) {
  RunConfig config = load_config(args.config, args.overrides);
  if (!args.adapter.empty()) {
    config.finetuning_type = "lora";
    config.lora.adapter_name_or_path = args.adapter;
  } else if (!config.lora.adapter_name_or_path) {
    config.finetuning_type = "full";  // the model alone
  }
  config.training.gradient_checkpointing = true;
  Screen screen(Screen::standard_error(config.logging.progress));
  BuiltModel built = build_model(config, Weights::check);
  EachParameter freeze([](Parameter& p) { p.trainable = false; });
  built.model().visit(freeze);
  Working reading(screen, "reading data");
  BuiltData data =
      build_data(config, built.made.info.vocab_size, LoadPart::eval, [&](auto a, auto b) { reading(a, b); });
  if (!data.eval)
    throw UserError(
        Exit::config,
        "data.eval_datasets: there is nothing to evaluate on; name files there, or set data.val_set_size");

  auto ops = make_ops({});
  PlanRequest request = plan_request(config, built, data, ops->workspace());
  request.states = 0;
  Engine engine(std::move(ops), built, request, plan_run(built.model(), request));
  Working working(screen, "evaluating", "batches");
  const Evaluated e = evaluate(engine.context, built.model(), engine.store, *data.eval,
                               [&](auto a, auto b) { working(a, b); });
  if (args.json) {
    const Json row = {{"eval_loss", e.loss}, {"perplexity", std::exp(e.loss)}, {"eval_tokens", e.targets}};
    std::printf("%s\n", json_text(row, -1).c_str());
  } else {
    std::printf("eval loss %.6f   perplexity %.4f   %lld target tokens\n", e.loss, std::exp(e.loss),
                static_cast<long long>(e.targets));
  }
  return Exit::done;
}

}  // namespace ft
