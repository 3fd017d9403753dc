# A worker in TypeScript: docker build -f images/examples/typescript.Dockerfile -t airports:1 .
# The compiler is the one that sdk/typescript pins; a project of your own has it among its own development packages.
FROM docker.io/library/node:22-bookworm-slim AS build
WORKDIR /src
COPY sdk/typescript sdk/typescript
RUN cd sdk/typescript && npm ci --no-audit --no-fund --ignore-scripts && npm run build
WORKDIR /app
COPY examples/polyglot/airports.ts ./
RUN mkdir node_modules && ln -s /src/sdk/typescript node_modules/millstream && echo '{"type": "module"}' >package.json \
 && /src/sdk/typescript/node_modules/typescript/bin/tsc --outDir . --target es2022 --module node16 --moduleResolution node16 --strict --skipLibCheck \
    --types node --typeRoots /src/sdk/typescript/node_modules/@types airports.ts

FROM docker.io/millstream/typescript:0.1.0
COPY --from=build /app/airports.js /app/package.json /app/
ENTRYPOINT ["/usr/bin/node", "airports.js"]
