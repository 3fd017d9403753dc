import dev.millstream.App;
import dev.millstream.Codecs;
import dev.millstream.EmitOptions;
import dev.millstream.Output;

public final class Cents {
  record Order(double amount) {}

  static final Output<String, Long> CENTS = Output.of("order-cents", Codecs.STRING, Codecs.json(Long.class));

  static App app() {
    return new App().on("orders", Codecs.STRING, Codecs.json(Order.class), (ctx, order) -> {
      if (order.value().amount() > 0) {
        CENTS.emit(ctx, order.key(), Math.round(order.value().amount() * 100), new EmitOptions().headers(order.headers()));
      }
    });
  }

  public static void main(String[] args) {
    app().main();
  }
}
