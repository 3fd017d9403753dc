import { app } from "./processor.js";

await app.run();
