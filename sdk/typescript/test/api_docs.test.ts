// Everything that programs can use is documented in the types that the package has with it (TSDoc), as editors show it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const ENTRIES = ["index", "testing"].map((name) => fileURLToPath(new URL(`../src/${name}.d.ts`, import.meta.url)));

const isInternal = (node: ts.Node): boolean =>
  ts.getJSDocTags(node).some((tag) => tag.tagName.text === "internal") || /@internal/.test(leading(node));
const leading = (node: ts.Node): string => node.getFullText().slice(0, node.getLeadingTriviaWidth());
const isDocumented = (node: ts.Node): boolean => leading(node).includes("/**");
const isPrivate = (node: ts.Declaration): boolean =>
  (ts.getCombinedModifierFlags(node) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) !== 0;

/** Members of classes and interfaces that say nothing; names that say it all, on a documented type, may stay as they are. */
const PLAIN = new Set(["name", "key", "value", "message", "code"]);

test("every export and every member is documented", () => {
  const program = ts.createProgram(ENTRIES, { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: ["node"], noEmit: true });
  const checker = program.getTypeChecker();
  const silent: string[] = [];
  let seen = 0;
  for (const entry of ENTRIES) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(entry)!)!;
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      for (const declaration of symbol.declarations ?? []) {
        seen += 1;
        const statement = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
        if (!isDocumented(statement)) silent.push(symbol.name);
        if (!ts.isClassDeclaration(declaration) && !ts.isInterfaceDeclaration(declaration)) continue;
        for (const member of declaration.members) {
          const name = member.name?.getText() ?? "constructor";
          if (isPrivate(member) || isInternal(member) || PLAIN.has(name) || member.name === undefined) continue;
          seen += 1;
          if (!isDocumented(member)) silent.push(`${symbol.name}.${name}`);
        }
      }
    }
  }
  assert.deepEqual(silent, []);
  assert.ok(seen > 100, String(seen));
});
